#include "workflow/gpu/launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "devices/device.hpp"
#include "runtime/driver.hpp"
#include "support/process.hpp"
#include "support/sha256.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/compile/kernel_name.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/device/card.hpp"
#include "workflow/gpu/budget.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// The interpreter executes a warp instruction in tens of nanoseconds where a GPU issues four a clock on every SM.
constexpr double virtual_limit_factor = 60;

const CudaInstance* find_instance(const Project& project, const std::string& name) {
  const auto found = std::find_if(project.instances.begin(), project.instances.end(),
                                  [&](const CudaInstance& instance) { return instance.name == name; });
  return found == project.instances.end() ? nullptr : &*found;
}

Result<std::array<std::int64_t, 3>> evaluate_axes(const std::array<const std::string*, 3>& axes, const Values& values) {
  std::array<std::int64_t, 3> result{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto value = evaluate(*axes[i], values);
    if (!value) return value.error();
    result[i] = static_cast<std::int64_t>(*value);
  }
  return result;
}

Result<std::vector<LaunchValue>> arguments_of(const Project& project, const CudaInstance& instance,
                                              const Values& values) {
  std::vector<LaunchValue> arguments;
  for (const std::string& text : instance.args) {
    const auto argument = parse_argument(project, text);
    if (!argument) return Diagnostic{.message = fmt::format("\"{}\" is no argument", text)};
    if (argument->tensor) {
      arguments.push_back({.tensor = argument->tensor});
      continue;
    }
    const auto value = evaluate(argument->expression, values);
    if (!value) return value.error();
    LaunchValue scalar{.type = argument->type};
    if (argument->type[0] == 'f') {
      scalar.real = *value;
    } else {
      scalar.integer = static_cast<std::int64_t>(*value);
    }
    arguments.push_back(std::move(scalar));
  }
  return arguments;
}

// Cubin and PTX of one target in one image: the cubin knows registers and spills, and only the PTX that nvcc wrote
// knows the source lines (the copy inside a cubin has lost them).
Result<std::string> image_of(const CudaToolkit& toolkit, const CompiledTarget& target) {
  namespace fs = std::filesystem;
  const fs::path cubin = target.path;
  const fs::path ptx = fs::path(cubin).replace_extension("ptx");
  const fs::path image = fs::path(cubin).replace_extension("fatbin");
  const std::string number = target.target.architecture.substr(3);  // "sm_89"
  const auto ran = run_process(
      {.argv = {(fs::path(toolkit.nvcc).parent_path() / "fatbinary").string(), "-64", "--create=" + image.string(),
                fmt::format("--image3=kind=elf,sm={},file={}", number, cubin.string()),
                fmt::format("--image3=kind=ptx,sm={},file={}", number, ptx.string())},
       .limit = std::chrono::seconds(60)});
  if (!ran) return ran.error();
  if (!ran->ok())
    return Diagnostic{.message = "fatbinary, beside nvcc, " + ran->describe() + "\n" + ran->err,
                      .fix = "remove .cudadent/build and run again"};
  return image.string();
}

// Where a kernel runs: whose driver, for which architecture, with which settings.
struct Place {
  std::string driver{}, architecture{};
  std::vector<std::string> environment{};
  double limit_factor = 1;
};

Result<Place> place_of(const DeviceSelector& device, const VirtualOptions& options) {
  if (capabilities_of(device).is_card) {
    const auto card = card_of(device);
    if (!card) return card.error();
    // Eager: a kernel that is loaded at its first launch would be loaded in the middle of a capture.
    Place place{
        .driver = card->driver, .architecture = card->architecture, .environment = {"CUDA_MODULE_LOADING=EAGER"}};
    if (card->rehearsal) place.limit_factor = virtual_limit_factor;
    return place;
  }
  const auto gpu = find_gpu(device.gpu);
  if (!gpu) return gpu.error();
  if (const char* const sample = std::getenv("VGPU_SAMPLE"); sample != nullptr && *sample != '\0')
    return Diagnostic{.message = fmt::format("VGPU_SAMPLE={} counts some CTAs, and this needs every one", sample),
                      .fix = "unset VGPU_SAMPLE",
                      .code = codes::usage_device};
  auto driver = runtime::virtual_driver_library();
  if (!driver) return driver.error();
  Place place{.driver = *driver,
              .architecture = std::string(gpu->architecture),
              .environment = {"VGPU_DEVICE=" + device.gpu, "VGPU_CHECK=" + options.checks},
              .limit_factor = virtual_limit_factor};
  if (!options.report.empty()) place.environment.push_back("VGPU_REPORT=" + options.report);
  if (options.seed != 0) place.environment.push_back(fmt::format("VGPU_SEED={}", options.seed));
  return place;
}

}  // namespace

Result<Runnable> counted_as(Runnable runnable, const Project& own, const Project& other) {
  std::vector<std::size_t> index_there;
  for (const TensorSpec& tensor : own.tensors) {
    const auto found = std::find_if(other.tensors.begin(), other.tensors.end(),
                                    [&](const TensorSpec& one) { return one.name == tensor.name; });
    if (found == other.tensors.end())
      return Diagnostic{
          .message = fmt::format("{} has a tensor '{}' that {} has not", own.name, tensor.name, other.name),
          .fix = "declare it there too, as scratch if it is no result",
          .file = other.file,
          .code = codes::usage_not_comparable};
    index_there.push_back(static_cast<std::size_t>(found - other.tensors.begin()));
  }
  Values defaults;
  for (const ParamSpec& param : own.params) defaults.emplace(param.name, param.default_value);
  runnable.launches = [index_there, defaults, launches = runnable.launches](const Values& values) {
    Values all = values;
    all.insert(defaults.begin(), defaults.end());  // of parameters that only it has
    auto made = launches(all);
    if (!made) return made;
    for (Launch& launch : *made)
      for (LaunchValue& value : launch.args)
        if (value.tensor) value.tensor = index_there[*value.tensor];
    return made;
  };
  return runnable;
}

ArgumentNames argument_names(const Project& project, const std::vector<CompiledTarget>& targets) {
  ArgumentNames names;
  for (const CudaInstance& instance : project.instances) {
    for (const CompiledTarget& target : targets) {
      const CubinKernel* kernel =
          target.target.source == instance.source ? find_kernel(target.cubin, instance.name) : nullptr;
      if (kernel == nullptr) continue;
      std::vector<std::string>& list = names[kernel->name];
      list.clear();
      for (const std::string& text : instance.args) {
        const auto argument = parse_argument(project, text);
        list.push_back(argument && argument->tensor ? project.tensors[*argument->tensor].name : "");
      }
    }
  }
  return names;
}

Result<std::vector<Launch>> launches_of(const Project& project, const std::vector<CompiledTarget>& targets,
                                        const Values& workload) {
  const Values values = with_point(project, workload);
  std::vector<Launch> launches;
  for (const std::string& name : project.cuda_launch) {
    const CudaInstance* instance = find_instance(project, name);
    if (instance == nullptr) return Diagnostic{.message = fmt::format("no instance is called {}", name)};
    const auto when = evaluate(instance->when, values);
    if (!when) return when.error();
    if (*when == 0) continue;
    const auto target = std::find_if(targets.begin(), targets.end(), [&](const CompiledTarget& compiled) {
      return compiled.target.source == instance->source;
    });
    const CubinKernel* kernel = target == targets.end() ? nullptr : find_kernel(target->cubin, name);
    if (kernel == nullptr)
      return Diagnostic{.message = fmt::format("{} is not in what {} compiles to", name, instance->source),
                        .fix = "cudadent gate --only build says which line is missing",
                        .code = codes::build_instance};
    const auto grid = evaluate_axes({&instance->grid_x, &instance->grid_y, &instance->grid_z}, values);
    if (!grid) return grid.error();
    const auto block = evaluate_axes({&instance->block_x, &instance->block_y, &instance->block_z}, values);
    if (!block) return block.error();
    const auto shared_bytes = evaluate(instance->dynamic_shared_bytes, values);
    if (!shared_bytes) return shared_bytes.error();
    auto arguments = arguments_of(project, *instance, values);
    if (!arguments) return arguments.error();
    launches.push_back({.image = static_cast<std::size_t>(target - targets.begin()),
                        .kernel = kernel->name,
                        .grid = *grid,
                        .block = *block,
                        .shared_bytes = static_cast<std::int64_t>(*shared_bytes),
                        .args = std::move(*arguments)});
  }
  return launches;
}

Result<Runnable> gpu_runnable(const Project& project, const DeviceSelector& device, const VirtualOptions& options,
                              Progress& progress) {
  if (project.instances.empty())
    return Diagnostic{.message = fmt::format("the project has no CUDA kernel that {} could run", device.to_string()),
                      .fix = "declare [cuda] with sources and instances in cudadent.toml",
                      .code = codes::project_no_callable};
  for (const std::string& name : project.cuda_launch) {
    const CudaInstance* instance = find_instance(project, name);
    if (instance != nullptr && instance->args.empty())
      return Diagnostic{.message = fmt::format("instance \"{}\" says no arguments, so it cannot be launched", name),
                        .fix = "add args to it, such as args = [\"x\", \"y\", \"i64 n\"]",
                        .file = project.file,
                        .line = instance->line,
                        .code = codes::project_no_callable};
  }
  if (const auto available = device_available(device); !available) return available.error();
  const auto place = place_of(device, options);
  if (!place) return place.error();
  const auto toolkit = find_cuda_toolkit();
  if (!toolkit) return toolkit.error();
  Project for_device = project;
  for_device.cuda_architectures = {place->architecture};
  auto targets = std::make_shared<std::vector<CompiledTarget>>(compile_cuda(for_device, *toolkit, {}, progress));
  Runnable runnable{.label = "kernel",
                    .kind = CallableKind::cuda,
                    .driver = place->driver,
                    .ordinal = device.ordinal,
                    .environment = place->environment,
                    .limit_factor = place->limit_factor,
                    .by_events = capabilities_of(device).is_card};
  for (const CompiledTarget& target : *targets) {
    if (!target.compiled) return target.failure;
    const auto image = image_of(*toolkit, target);
    if (!image) return image.error();
    const auto hash = sha256_of_file(*image);
    if (!hash) return hash.error();
    runnable.images.push_back({*image, *hash});
    runnable.library = *image;  // what the gate watches for changes
    runnable.content_hash = *hash;
  }
  runnable.argument_names = argument_names(project, *targets);
  if (runnable.by_events) {
    runnable.launches = [=](const Values& values) { return launches_of(project, *targets, values); };
    return runnable;
  }
  const bool budget_is_given = std::getenv("VGPU_BUDGET") != nullptr;
  // Set from the first on, else the driver would not look again.
  if (!budget_is_given) runnable.environment.emplace_back("VGPU_BUDGET=1000000000");
  auto budget = std::make_shared<InstructionBudget>(options.report);
  runnable.launches = [=](const Values& values) {
    auto launches = launches_of(project, *targets, values);
    if (!launches || budget_is_given) return launches;
    const std::uint64_t most = budget->next(size_of_case(project, values));
    for (Launch& launch : *launches) launch.instruction_budget = most;
    return launches;
  };
  return runnable;
}

}  // namespace flashmoe::workflow
