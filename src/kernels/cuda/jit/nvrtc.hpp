// NVIDIA's runtime compiler, loaded when it is first needed: the library itself depends on nothing of CUDA.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/jit/sources.hpp"
#include "support/result.hpp"

namespace flashmoe::cuda {

enum class ImageKind { cubin, ptx };

inline constexpr int any_driver = std::numeric_limits<int>::max();

class Nvrtc {
 public:
  // FLASHMOE_NVRTC (paths with colons between) if set; else what the loader finds, which includes one that the process
  // has loaded already (PyTorch's); else the toolkit's usual place. Of these the first that fits the driver; where none
  // does, the first.
  [[nodiscard]] static Result<Nvrtc> open(int driver = any_driver);

  [[nodiscard]] std::string version() const;  // "13.0"
  // Whether this driver (12040: of CUDA 12.4) loads the cubins that it makes: their layout changes with the major
  // version alone.
  [[nodiscard]] bool fits(int driver) const;
  [[nodiscard]] bool can_compile_for(int architecture) const;

  // `sources` hold the main one and its headers; they see nothing else. An error names the place in the source.
  [[nodiscard]] Result<std::vector<char>> compile(const char* main_name, std::span<const Source> sources,
                                                  std::span<const std::string> options, ImageKind kind) const;

 private:
  // The documented C ABI of nvrtc.h, in its order; results are nvrtcResult.
  using Program = struct ProgramOpaque*;
  struct Functions {
    const char* (*error_text)(int result);
    int (*version)(int* major, int* minor);
    int (*architecture_count)(int* count);
    int (*architectures)(int* values);
    int (*create)(Program* program, const char* source, const char* name, int header_count, const char* const* headers,
                  const char* const* header_names);
    int (*destroy)(Program* program);
    int (*compile)(Program program, int option_count, const char* const* options);
    int (*ptx_bytes)(Program program, std::size_t* bytes);
    int (*ptx)(Program program, char* to);
    int (*cubin_bytes)(Program program, std::size_t* bytes);
    int (*cubin)(Program program, char* to);
    int (*log_bytes)(Program program, std::size_t* bytes);
    int (*log)(Program program, char* to);
  };

  Nvrtc() = default;
  [[nodiscard]] static Result<Nvrtc> use(void* handle, const std::string& library);
  [[nodiscard]] Result<Done> find_functions(void* handle);
  [[nodiscard]] Result<Done> check(int result, const char* what) const;
  [[nodiscard]] Diagnostic why_not_compiled(Program program, int result) const;
  [[nodiscard]] Result<std::vector<char>> image_of(Program program, ImageKind kind) const;

  std::string library_{};
  Functions call_{};
  int major_ = 0, minor_ = 0;
};

}  // namespace flashmoe::cuda
