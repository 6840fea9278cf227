// A loaded image: its PTX parsed, its variables in device memory, its kernels lowered when they are first asked for.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "images/cubin.hpp"
#include "images/image.hpp"
#include "vgpu/driver/state.hpp"
#include "vgpu/ir/lower.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::driver {

// Behind a CUfunction and behind a CUkernel alike: the documentation lets a CUkernel stand where a CUfunction may.
struct Function {
  Module* module = nullptr;
  const ptx::Function* entry = nullptr;
  std::string name{};
  std::unique_ptr<ir::Kernel> kernel{};
  int default_dynamic_shared_bytes = 0;
  std::map<CUdevice, int> raised_dynamic_shared_bytes{};  // where it was set, which is one device's alone
  [[nodiscard]] int max_dynamic_shared_bytes(CUdevice device) const {
    const auto raised = raised_dynamic_shared_bytes.find(device);
    return raised == raised_dynamic_shared_bytes.end() ? default_dynamic_shared_bytes : raised->second;
  }
  int carveout = -1;
  int non_portable_cluster = 0;
  // What cuFuncSetBlockShape and its like leave for cuLaunchGrid.
  struct {
    exec::Dim3 block{};
    unsigned shared_bytes = 0;
    std::vector<std::uint8_t> parameters{};
  } kept{};
};

struct Global {
  std::uint64_t address = 0, bytes = 0;
  std::vector<std::uint8_t> initial{};  // kept where leftovers are looked for
};

struct Module {
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();
  Context* context = nullptr;  // null: of a library, which belongs to none
  std::uint64_t number = 0;
  Machine* machine = nullptr;
  ptx::Module ptx{};
  std::vector<std::string> texts{};  // as given, for ptxas
  std::string origin{};
  std::map<std::string, Global, std::less<>> globals{};
  std::map<std::string, Function, std::less<>> functions{};
  ir::Unsupported unsupported{};  // kernels that were loaded and cannot run
  std::optional<Cubin> cubin{};   // registers and spills
  bool asked_ptxas = false;
};

struct Library {
  std::unique_ptr<Module> module{};
};

// Reads, links, verifies and places the image. The diagnostic is what goes into the error log.
struct LoadError {
  CUresult result = CUDA_ERROR_INVALID_IMAGE;
  Diagnostic diagnostic{};
};
using Loaded = std::variant<std::unique_ptr<Module>, LoadError>;
// Where an image begins in the caller's memory, or the bytes of a file, which are all there is.
using ImageSource = std::variant<const void*, std::span<const std::byte>>;
[[nodiscard]] Loaded load_module(State& all, Context* context, const ImageSource& source);

[[nodiscard]] Function* find_function(State& all, const void* handle);

// Not every kernel of a module that loads can run: CUDA_ERROR_NOT_SUPPORTED, with the reason in the log.
[[nodiscard]] CUresult check_supported(const Module& module, std::string_view kernel);

// The kernel, lowered now if it was not; its parameters and shared memory are known from then on.
[[nodiscard]] Result<const ir::Kernel*> lowered(Function& function);

// What ptxas made of it: from the cubin in the image, else (`may_compile`) from the machine's ptxas, else nothing.
[[nodiscard]] const CubinKernel* compiled(Function& function, bool may_compile = true);

}  // namespace flashmoe::vgpu::driver
