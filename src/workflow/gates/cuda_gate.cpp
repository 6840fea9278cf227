#include "workflow/gates/cuda_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "images/elf.hpp"
#include "support/whole_file.hpp"
#include "workflow/compile/kernel_name.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

struct Geometry {
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::array<std::int64_t, 3> block{1, 1, 1};
  std::int64_t dynamic_shared_bytes = 0;
  [[nodiscard]] std::int64_t threads() const { return block[0] * block[1] * block[2]; }
  [[nodiscard]] std::int64_t ctas() const { return grid[0] * grid[1] * grid[2]; }
};

// One instance on one architecture: everything the findings need.
struct InstanceCheck {
  const Project& project;
  const CudaInstance& instance;
  const CompiledTarget& compiled;
  const CubinKernel& kernel;
  const Architecture& limits;
  GateResult& result;

  [[nodiscard]] std::string where(const std::string& workload = {}) const {
    return fmt::format("{}:{}: {}{}", project.file, instance.line, instance.name,
                       workload.empty() ? "" : ", workload " + workload);
  }
  void add(Severity severity, std::string what, std::string fix, const std::string& workload = {}) const {
    const char* code = severity == Severity::error     ? codes::build_resources
                       : severity == Severity::warning ? codes::build_advice
                                                       : "";
    result.findings.push_back(
        {severity, compiled.target.architecture, std::move(what), where(workload), std::move(fix), code});
  }
};

Result<Geometry> launch_of(const CudaInstance& instance, const Values& values) {
  Geometry launch;
  const std::pair<const std::string*, std::int64_t*> all[] = {
      {&instance.grid_x, &launch.grid[0]},
      {&instance.grid_y, &launch.grid[1]},
      {&instance.grid_z, &launch.grid[2]},
      {&instance.block_x, &launch.block[0]},
      {&instance.block_y, &launch.block[1]},
      {&instance.block_z, &launch.block[2]},
      {&instance.dynamic_shared_bytes, &launch.dynamic_shared_bytes}};
  for (const auto& [expression, value] : all) {
    const auto evaluated = evaluate(*expression, values);
    if (!evaluated) return evaluated.error();
    if (!(std::abs(*evaluated) < 9e15))
      return Diagnostic{.message = fmt::format("\"{}\" is {}", *expression, *evaluated)};
    *value = static_cast<std::int64_t>(*evaluated);
  }
  return launch;
}

// False when the launch is impossible on any GPU; the finding says why.
bool check_geometry(const InstanceCheck& check, const Geometry& launch, const std::string& workload) {
  constexpr const LaunchExtents& most_extents = most_launch_extents;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const char name = "xyz"[axis];
    if (launch.grid[axis] < 1 || launch.grid[axis] > most_extents.grid[axis]) {
      check.add(Severity::error,
                fmt::format("grid.{} is {}; 1 to {} are allowed", name, launch.grid[axis], most_extents.grid[axis]),
                "correct `grid` of this instance, or move the large extent to x", workload);
      return false;
    }
    if (launch.block[axis] < 1 || launch.block[axis] > most_extents.block[axis]) {
      check.add(Severity::error,
                fmt::format("block.{} is {}; 1 to {} are allowed", name, launch.block[axis], most_extents.block[axis]),
                "correct `block` of this instance", workload);
      return false;
    }
  }
  if (launch.dynamic_shared_bytes < 0) {
    check.add(Severity::error, fmt::format("shared_bytes is {}", launch.dynamic_shared_bytes), "correct `shared_bytes`",
              workload);
    return false;
  }
  const std::int64_t most = check.kernel.max_threads > 0
                                ? std::min<std::int64_t>(check.kernel.max_threads, check.limits.max_threads_per_cta)
                                : check.limits.max_threads_per_cta;
  if (launch.threads() > most) {
    const bool bounds = most == check.kernel.max_threads;
    check.add(Severity::error,
              fmt::format("{} threads per CTA; at most {}{}", launch.threads(), most,
                          bounds ? " by its __launch_bounds__" : ""),
              bounds ? fmt::format("raise __launch_bounds__ in {} to {}, or make `block` smaller",
                                   check.instance.source, launch.threads())
                     : "make `block` smaller",
              workload);
    return false;
  }
  return true;
}

void check_spills(const InstanceCheck& check) {
  if (check.kernel.spill_store_bytes > check.instance.max_spill_bytes)
    check.add(
        Severity::error,
        fmt::format("{} spills {} bytes per thread to local memory ({} registers{}); at most {} are accepted",
                    check.instance.name, check.kernel.spill_store_bytes, check.kernel.registers,
                    check.kernel.max_threads > 0 ? fmt::format(", __launch_bounds__ {}", check.kernel.max_threads)
                                                 : std::string(),
                    check.instance.max_spill_bytes),
        fmt::format("in {}: relax __launch_bounds__ (fewer threads, or no minimum of CTAs), keep fewer values live "
                    "(smaller tiles per thread), or accept it with max_spill_bytes = {}",
                    check.instance.source, check.kernel.spill_store_bytes));
  else if (check.kernel.frame_bytes > check.kernel.spill_store_bytes)
    check.add(Severity::warning,
              fmt::format("{} keeps {} bytes per thread in local memory: an array that is indexed at run time",
                          check.instance.name, check.kernel.frame_bytes - check.kernel.spill_store_bytes),
              "unroll the loops over that array so that every index is a constant");
}

// Waves: how often the whole machine is filled. Below one, part of it has nothing to do.
LaunchFacts check_workload(const InstanceCheck& check, const Geometry& launch, const Workload& workload,
                           const Gpu* gpu) {
  const KernelResources resources{.registers = check.kernel.registers,
                                  .threads = static_cast<int>(launch.threads()),
                                  .static_shared_bytes = check.kernel.static_shared_bytes,
                                  .dynamic_shared_bytes = launch.dynamic_shared_bytes,
                                  .barriers = check.kernel.barriers};
  const Occupancy held = occupancy(check.limits, resources);
  LaunchFacts facts{.workload = workload.name,
                    .grid = launch.grid,
                    .block = launch.block,
                    .dynamic_shared_bytes = launch.dynamic_shared_bytes,
                    .ctas_per_sm = held.ctas_per_sm,
                    .occupancy = held.share_of_warps,
                    .limiter = held.limiter};
  const auto shared = check.kernel.static_shared_bytes + launch.dynamic_shared_bytes;
  if (shared > check.limits.shared_bytes_per_cta_optin) {
    check.add(Severity::error,
              fmt::format("{} needs {} bytes of shared memory ({} static + {} dynamic); {}{} has at most {} per CTA",
                          check.instance.name, shared, check.kernel.static_shared_bytes, launch.dynamic_shared_bytes,
                          gpu != nullptr ? std::string(gpu->name) + ", " : "", check.limits.name,
                          check.limits.shared_bytes_per_cta_optin),
              fmt::format("use smaller tiles or fewer stages: at least {} bytes less",
                          shared - check.limits.shared_bytes_per_cta_optin),
              workload.name);
    return facts;
  }
  if (held.ctas_per_sm == 0) {
    check.add(
        Severity::error, fmt::format("{} cannot be launched: {}", check.instance.name, held.limiter),
        fmt::format("use fewer threads per CTA, or __launch_bounds__({}) in {} so that ptxas keeps to the registers",
                    launch.threads(), check.instance.source),
        workload.name);
    return facts;
  }
  if (held.share_of_warps < check.instance.min_occupancy)
    check.add(
        Severity::error,
        fmt::format("occupancy {:.0f} % ({} CTAs per SM); at least {:.0f} % is required; limited by {}",
                    100 * held.share_of_warps, held.ctas_per_sm, 100 * check.instance.min_occupancy, held.limiter),
        "relieve that limit, or lower min_occupancy", workload.name);
  if (gpu == nullptr) return facts;
  const double waves = static_cast<double>(launch.ctas()) / (gpu->sm_count.value * held.ctas_per_sm);
  facts.waves = waves;
  // Tiny workloads are there to be checked, not to fill a machine: only the one that counts is worth a warning.
  const Workload* target = target_workload(check.project);
  if (target != nullptr && workload.name == target->name && static_cast<double>(launch.ctas()) < gpu->sm_count.value)
    check.add(Severity::warning,
              fmt::format("{} {} on {} SMs of the {}: {:.1f} % of the machine, {:.2f} waves", launch.ctas(),
                          launch.ctas() == 1 ? "CTA" : "CTAs", gpu->sm_count.value, gpu->name,
                          100 * static_cast<double>(launch.ctas()) / gpu->sm_count.value, waves),
              "more parallelism first: split another axis over the grid (rows, heads, or the keys with a combine)",
              workload.name);
  return facts;
}

InstanceFacts check_instance(const InstanceCheck& check, const Gpu* gpu) {
  const auto errors = [&] {
    return std::count_if(check.result.findings.begin(), check.result.findings.end(),
                         [](const Finding& finding) { return finding.severity == Severity::error; });
  };
  const auto errors_before = errors();
  InstanceFacts facts{.instance = check.instance.name,
                      .symbol = check.kernel.name,
                      .architecture = check.compiled.target.architecture,
                      .registers = check.kernel.registers,
                      .static_shared_bytes = check.kernel.static_shared_bytes,
                      .frame_bytes = check.kernel.frame_bytes,
                      .spill_store_bytes = check.kernel.spill_store_bytes,
                      .spill_load_bytes = check.kernel.spill_load_bytes,
                      .max_threads = check.kernel.max_threads,
                      .barriers = check.kernel.barriers,
                      .code_bytes = check.kernel.code_bytes};
  check_spills(check);
  double least = 1;
  for (const Workload& workload : check.project.workloads) {
    const Values values = with_point(check.project, workload.values);
    if (const auto when = evaluate(check.instance.when, values); when && *when == 0) continue;
    const auto launch = launch_of(check.instance, values);
    if (!launch) {
      check.add(Severity::error, "launch geometry: " + launch.error().message, launch.error().fix, workload.name);
      continue;
    }
    if (!check_geometry(check, *launch, workload.name)) continue;
    facts.workloads.push_back(check_workload(check, *launch, workload, gpu));
    least = std::min(least, facts.workloads.back().occupancy);
  }
  if (errors() == errors_before)
    check.add(Severity::ok,
              fmt::format("{}: {} registers, {} bytes static shared memory, {} bytes spilled, occupancy {:.0f} %",
                          check.instance.name, check.kernel.registers, check.kernel.static_shared_bytes,
                          check.kernel.spill_store_bytes, 100 * least),
              "");
  return facts;
}

std::string source_text(const Project& project, const std::string& source) {
  return whole_file(std::filesystem::path(project.directory) / source).value_or("");
}

// With separate compilation a cubin may leave functions to the others of its architecture, but to nobody else.
void check_undefined(const std::vector<CompiledTarget>& targets, GateResult& result) {
  for (const CompiledTarget& target : targets) {
    std::set<std::string> defined;
    for (const CompiledTarget& other : targets)
      if (other.target.architecture == target.target.architecture)
        defined.insert(other.cubin.functions.begin(), other.cubin.functions.end());
    for (const std::string& name : target.cubin.undefined)
      if (!defined.contains(name) && name != "vprintf" && name != "malloc" && name != "free" && name != "__assertfail")
        result.findings.push_back(
            {Severity::error, target.target.architecture,
             fmt::format("undefined symbol: {} calls \"{}\", which no source of the project defines",
                         target.target.source, demangled(name)),
             target.target.source,
             "add the file that defines it to cuda.sources in cudadent.toml, or define it as "
             "__device__ in " +
                 target.target.source,
             codes::build_instance});
  }
}

void check_target(const Project& project, const CompiledTarget& target, const Gpu* gpu, CudaBuildFacts& facts,
                  GateResult& result) {
  facts.cubins.push_back({.source = target.target.source,
                          .architecture = target.target.architecture,
                          .sha256 = target.content_hash,
                          .from_cache = target.from_cache,
                          .seconds = target.seconds,
                          .kernels = target.cubin.kernels.size(),
                          .failed = !target.compiled});
  if (!target.compiled) {
    result.findings.push_back(
        {Severity::error, target.target.architecture, target.interrupted ? "interrupted" : target.failure.message,
         target.failure.file.empty() ? target.target.source : target.failure.file, target.failure.fix,
         target.failure.code.empty() ? codes::build_compile_failed : target.failure.code});
    return;
  }
  const auto limits = find_architecture(target.target.architecture);
  if (!limits) {
    result.findings.push_back({Severity::error, target.target.architecture, limits.error().message, project.file,
                               limits.error().fix, codes::build_target});
    return;
  }
  if (static_cast<int>(limits->compute_major * 10 + limits->compute_minor) != target.cubin.sm)
    result.findings.push_back(
        {Severity::error, target.target.architecture, fmt::format("the cubin is for sm_{}", target.cubin.sm),
         target.path, "remove -arch and -gencode from cuda.flags: architectures says it", codes::build_target});
  for (const CudaInstance& instance : project.instances) {
    if (instance.source != target.target.source) continue;
    const CubinKernel* kernel = find_kernel(target.cubin, instance.name);
    if (kernel == nullptr) {
      const auto missing =
          explain_missing_kernel(target.cubin, instance.name, instance.source, source_text(project, instance.source));
      result.findings.push_back({Severity::error, target.target.architecture, missing.what,
                                 fmt::format("{}:{}", project.file, instance.line), missing.fix,
                                 codes::build_instance});
      continue;
    }
    const InstanceCheck check{project, instance, target, *kernel, *limits, result};
    const bool on_device = gpu != nullptr && gpu->architecture == limits->name;
    facts.instances.push_back(check_instance(check, on_device ? gpu : nullptr));
  }
}

}  // namespace

void check_cuda_targets(const Project& project, const std::vector<CompiledTarget>& targets, GateResult& result) {
  CudaBuildFacts facts;
  const auto gpu = find_gpu(project.cuda_device);
  if (!gpu) {
    result.findings.push_back(
        {Severity::error, "device", gpu.error().message, project.file, gpu.error().fix, codes::build_target});
  } else {
    facts.device = gpu->id;
    if (std::find(project.cuda_architectures.begin(), project.cuda_architectures.end(), gpu->architecture) ==
        project.cuda_architectures.end())
      result.findings.push_back(
          {Severity::warning, "device",
           fmt::format(
               "the device {} is {}, but cuda.architectures does not have it: occupancy and grid are not checked",
               gpu->name, gpu->architecture),
           project.file, fmt::format("add \"{}\" to cuda.architectures", gpu->architecture), codes::build_advice});
  }
  for (const CompiledTarget& target : targets) check_target(project, target, gpu ? &*gpu : nullptr, facts, result);
  check_undefined(targets, result);
  result.facts_as<BuildFacts>().cuda = std::move(facts);
}

}  // namespace flashmoe::workflow
