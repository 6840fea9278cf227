#include "vgpu/driver/module.hpp"

#include <fmt/format.h>

#include <cstring>

#include "images/target.hpp"
#include "vgpu/driver/globals.hpp"
#include "vgpu/driver/link.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/ptxas.hpp"
#include "vgpu/driver/watch.hpp"
#include "vgpu/exec/handlers.hpp"
#include "vgpu/ir/lower.hpp"
#include "vgpu/ir/readable_name.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// Function addresses are numbers that kernels only hand back to a call. Each module has its own range of them: another
// module's function is not known, rather than taken for one's own.
constexpr std::uint64_t function_addresses = 4ull << 56, addresses_per_module = 1ull << 24;

std::uint64_t function_address(const Module& module, std::string_view name) {
  for (std::size_t i = 0; i < module.ptx.functions.size(); ++i)
    if (module.ptx.functions[i].name == name)
      return function_addresses + module.number * addresses_per_module + 16 * (i + 1);
  return 0;
}

ir::Surroundings surroundings(const Module& module) {
  const auto mode = module.machine->watching.observed() ? exec::Mode::observed : exec::Mode::fast;
  return {.handler = [mode](const ir::Form& form) { return exec::handler(form, mode); },
          .address_of = [&module](std::string_view name) -> std::uint64_t {
            const auto found = module.globals.find(name);
            return found == module.globals.end() ? 0 : found->second.address;
          },
          .function_address = [&module](std::string_view name) { return function_address(module, name); },
          .red_zones = module.machine->watching.memcheck};
}

Result<Done> check_target(const ptx::Module& module, int device) {
  for (const std::string& target : module.targets) {
    if (target_runs_on(target, device)) continue;
    return Diagnostic{
        .message = fmt::format("the PTX is for {}, this device is sm_{}", target, device),
        .fix = fmt::format("compile for compute_{} or older, without a letter behind the number, or choose "
                           "the device it is for",
                           device)};
  }
  return Done{};
}

LoadError failed(CUresult result, Diagnostic diagnostic) {
  return {result, std::move(diagnostic)};
}

}  // namespace

Module::~Module() {
  for (const auto& [name, global] : globals) static_cast<void>(machine->memory->free(global.address));
}

Loaded load_module(State& all, Context* context, const ImageSource& source) {
  const void* const* const memory = std::get_if<const void*>(&source);
  if (memory != nullptr && *memory == nullptr) return LoadError{CUDA_ERROR_INVALID_VALUE, {.message = "no image"}};
  auto read = memory != nullptr ? read_image_at(*memory, all.machine->sm())
                                : read_image(std::get<std::span<const std::byte>>(source), all.machine->sm());
  if (!read) {
    // An image with nothing for this device, or with SASS alone; a broken one has no advice.
    return failed(read.error().fix.empty() ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_NO_BINARY_FOR_GPU, read.error());
  }
  const std::uint64_t number = all.next_id++;
  std::vector<ptx::Module> parts;
  for (std::size_t i = 0; i < read->ptx.size(); ++i) {
    auto part = ptx::parse(read->ptx[i], read->ptx.size() == 1 ? fmt::format("module {}", number)
                                                               : fmt::format("module {}, part {}", number, i + 1));
    if (!part) return failed(CUDA_ERROR_INVALID_PTX, part.error());
    parts.push_back(std::move(*part));
  }
  auto linked = link(std::move(parts));
  if (!linked) return failed(CUDA_ERROR_INVALID_PTX, linked.error());
  auto verified = ir::verify(*linked);
  if (!verified) return failed(CUDA_ERROR_INVALID_PTX, verified.error());
  if (auto fits = check_target(*linked, all.machine->sm()); !fits) return failed(CUDA_ERROR_INVALID_PTX, fits.error());

  auto module = std::make_unique<Module>();
  module->context = context;
  module->number = number;
  module->machine = all.machine;
  module->ptx = std::move(*linked);
  module->texts = std::move(read->ptx);
  module->origin = std::move(read->origin);
  module->unsupported = std::move(*verified);
  if (!read->cubin.empty())
    if (auto cubin = read_cubin(read->cubin)) module->cubin = std::move(*cubin);
  const auto placed = place_globals(*module, [&](std::string_view name) { return function_address(*module, name); });
  if (!placed) return failed(CUDA_ERROR_INVALID_PTX, placed.error());
  for (const ptx::Function& function : module->ptx.functions)
    if (function.is_entry && !function.is_declaration)
      module->functions.emplace(function.name, Function{.module = module.get(),
                                                        .entry = &function,
                                                        .name = function.name,
                                                        .default_dynamic_shared_bytes =
                                                            all.machine->architecture.shared_bytes_per_cta_default});
  return module;
}

Function* find_function(State& all, const void* handle) {
  const auto in = [&](Module& module) -> Function* {
    for (auto& [name, function] : module.functions)
      if (&function == handle) return &function;
    return nullptr;
  };
  for (const auto& [key, module] : all.modules)
    if (Function* const found = in(*module)) return found;
  for (const auto& [key, library] : all.libraries)
    if (Function* const found = in(*library->module)) return found;
  return nullptr;
}

CUresult check_supported(const Module& module, std::string_view kernel) {
  const auto found = module.unsupported.find(kernel);
  if (found == module.unsupported.end()) return CUDA_SUCCESS;
  report_refused(
      fmt::format("kernel {} cannot run on the virtual GPU: {}", ir::readable_name(kernel), found->second.to_string()));
  return CUDA_ERROR_NOT_SUPPORTED;
}

Result<const ir::Kernel*> lowered(Function& function) {
  if (function.kernel == nullptr) {
    auto made = ir::lower(function.module->ptx, function.name, surroundings(*function.module));
    if (!made) return made.error();
    function.kernel = std::make_unique<ir::Kernel>(std::move(*made));
    // Until a caller raises it, static and dynamic shared memory together get the default.
    function.default_dynamic_shared_bytes =
        std::min(function.default_dynamic_shared_bytes,
                 std::max(0, function.module->machine->architecture.shared_bytes_per_cta_default -
                                 static_cast<int>(function.kernel->static_shared_bytes)));
  }
  return function.kernel.get();
}

const CubinKernel* compiled(Function& function, bool may_compile) {
  Module& module = *function.module;
  if (!module.cubin && !module.asked_ptxas && may_compile) {
    module.asked_ptxas = true;
    if (module.texts.size() == 1) {
      // ptxas takes sm_90a for itself alone, too.
      const std::string_view target = target_of(module.texts[0]);
      const bool is_specific = target.ends_with('a') || target.ends_with('f');
      module.cubin = compile_with_ptxas(module.texts[0], is_specific ? target : module.machine->gpu.architecture);
    }
  }
  if (!module.cubin) return nullptr;
  for (const CubinKernel& kernel : module.cubin->kernels)
    if (kernel.name == function.name) return &kernel;
  return nullptr;
}

}  // namespace flashmoe::vgpu::driver
