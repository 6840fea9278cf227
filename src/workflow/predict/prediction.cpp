#include "workflow/predict/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "devices/device.hpp"
#include "predict/walk.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/environment/nvdisasm.hpp"
#include "workflow/gpu/launches.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/predict/nvdisasm.hpp"
#include "workflow/predict/ptx_run_json.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

double metric(const LaunchReport& report, const char* name) {
  const auto found = report.metrics.find(name);
  return found == report.metrics.end() ? 0 : found->second;
}

KernelResources resources_of(const LaunchReport& report) {
  return {.registers = static_cast<int>(metric(report, "launch__registers_per_thread")),
          .threads = static_cast<int>(metric(report, "launch__block_size")),
          .dynamic_shared_bytes = static_cast<std::int64_t>(metric(report, "launch__shared_mem_per_block"))};
}

std::vector<LinePressure> pressure_of(const predict::Prediction& prediction, const predict::SassKernel& kernel,
                                      const predict::PtxRun& run) {
  std::map<std::pair<std::string, int>, LinePressure> lines;
  double total = 0;
  for (const predict::InstructionCost& cost : prediction.costs) {
    const auto found = run.lines.find(kernel.instructions[cost.instruction].ptx_line);
    const bool is_known = found != run.lines.end() && !found->second.file.empty();
    const std::pair<std::string, int> place =
        is_known ? std::pair(found->second.file, found->second.source_line) : std::pair(std::string(), 0);
    LinePressure& line = lines[place];
    line.file = place.first;
    line.line = place.second;
    line.executions += cost.executions;
    for (std::size_t i = 0; i < predict::stalls; ++i) {
      line.cycles[i] += cost.cycles[i];
      line.share += cost.cycles[i];
      total += cost.cycles[i];
    }
  }
  std::vector<LinePressure> all;
  for (auto& [place, line] : lines) {
    line.share = total > 0 ? line.share / total : 0;
    all.push_back(std::move(line));
  }
  return all;
}

// The cubin that stands beside an image (gpu/launches.cpp makes the one from the other).
std::string cubin_of(const Image& image) {
  return std::filesystem::path(image.path).replace_extension("cubin").string();
}

std::vector<std::string> cubins_of(const Runnable& kernel) {
  std::vector<std::string> cubins;
  for (const auto& image : kernel.images) cubins.push_back(cubin_of(image));
  return cubins;
}

Result<std::vector<predict::SassKernel>> sass_of_all(const std::vector<std::string>& cubins) {
  const auto nvdisasm = find_nvdisasm();
  if (!nvdisasm) return nvdisasm.error();
  std::vector<predict::SassKernel> all;
  for (const std::string& cubin : cubins) {
    auto sass = sass_of(*nvdisasm, cubin);
    if (!sass) return sass.error();
    std::move(sass->begin(), sass->end(), std::back_inserter(all));
  }
  return all;
}

predict::Grid grid_of(const LaunchReport& report) {
  predict::Grid grid{1, 1, 1};
  std::copy_n(report.grid.begin(), std::min(grid.size(), report.grid.size()), grid.begin());
  return grid;
}

Diagnostic usage_problem(Diagnostic problem) {
  problem.code = codes::usage_command_line;
  return problem;
}

// One launch after the other, and what lies between them: at least what it does in a graph, at most what it does in a
// stream. Left out, moving work into a second launch would look like a gain.
predict::Time sum_of(const std::vector<LaunchPrediction>& launches, predict::Time predict::Prediction::*time) {
  predict::Time sum;
  for (const LaunchPrediction& launch : launches) {
    const predict::Time& one = launch.prediction.*time;
    if (one.us == 0) return {};
    const predict::LaunchCost between = &launch == launches.data() ? predict::LaunchCost{} : launch.prediction.launch;
    sum.us += one.us + between.graph_us.value;
    sum.least_us += one.least_us + between.graph_us.value;
    sum.most_us += one.most_us + between.stream_us.value;
  }
  return sum;
}

}  // namespace

predict::Stall LinePressure::mostly() const {
  const auto largest = std::max_element(cycles.begin() + 1, cycles.end());  // [0] is issuing itself
  return static_cast<predict::Stall>(largest - cycles.begin());
}

std::array<double, predict::stalls> LaunchPrediction::waits() const {
  std::array<double, predict::stalls> sum{};
  for (const LinePressure& line : lines)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += line.cycles[i];
  return sum;
}

bool PredictionRun::is_predicted() const {
  return std::all_of(launches.begin(), launches.end(), [](const LaunchPrediction& one) { return one.is_predicted(); });
}

double PredictionRun::cycles() const {
  return boost().us * boost_clock_mhz;
}

predict::Time PredictionRun::boost() const {
  return sum_of(launches, &predict::Prediction::boost);
}

predict::Time PredictionRun::sustained() const {
  return sum_of(launches, &predict::Prediction::sustained);
}

const LaunchPrediction* PredictionRun::longest() const {
  const auto found = std::max_element(launches.begin(), launches.end(), [](const auto& a, const auto& b) {
    return a.prediction.cycles < b.prediction.cycles;
  });
  return found == launches.end() ? nullptr : &*found;
}

Evidence PredictionRun::evidence() const {
  const predict::Time time = boost();
  Evidence evidence{.kind = predicted_evidence, .where = device.substr(device.find(':') + 1)};
  if (time.us > 0) evidence.error = std::max(time.most_us - time.us, time.us - time.least_us) / time.us;
  return evidence;
}

Result<predict::Grid> parse_grid(const std::string& text) {
  predict::Grid grid{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t axis = 0; axis < grid.size(); ++axis) {
    const auto [behind, error] = std::from_chars(at, end, grid[axis]);
    const bool goes_on = axis + 1 == grid.size() ? behind == end : behind != end && *behind == ',';
    if (error != std::errc{} || grid[axis] < 1 || !goes_on)
      return Diagnostic{.message = fmt::format("--grid is \"{}\", which is no grid", text),
                        .fix = "three numbers from 1 on, as in --grid 64,8,1",
                        .code = codes::usage_command_line};
    at = behind + 1;
  }
  return grid;
}

Result<LaunchPrediction> predict_launch(const LaunchReport& report, const std::vector<predict::SassKernel>& sass,
                                        const Gpu& gpu, const std::optional<predict::Grid>& grid) {
  const auto kernel =
      std::find_if(sass.begin(), sass.end(), [&](const predict::SassKernel& one) { return one.name == report.kernel; });
  if (kernel == sass.end())
    return Diagnostic{.message = fmt::format("the cubins have no code of {}", report.kernel),
                      .fix = "name the cubin of every kernel; of a project, remove .cudadent/build and run again",
                      .code = codes::predict_abstains};
  auto run = ptx_run_from(report.json);
  if (!run) return run.error();
  LaunchPrediction answer{.report = report};
  if (grid) {
    run = predict::with_grid(*run, grid_of(report), *grid);
    if (!run) return usage_problem(run.error());
    answer.report.grid.assign(grid->begin(), grid->end());
  }
  auto paths = predict::sass_paths(*kernel, *run);
  if (!paths) {
    Diagnostic problem = paths.error();
    problem.code = codes::predict_abstains;
    return problem;
  }
  const double copies = static_cast<double>(answer.report.ctas()) / static_cast<double>(report.ctas());
  const double dram_bytes =
      copies * (metric(report, "vgpu__dram_bytes_read.sum") + metric(report, "vgpu__l2_dirty_bytes_at_end") +
                metric(report, "vgpu__dram_bytes_written.sum"));
  predict::Launch launch{.kernel = *kernel,
                         .samples = std::move(paths->ctas),
                         .memory = std::move(paths->memory),
                         .cta_instructions = {},
                         .sample_instructions = {},
                         .ctas = answer.report.ctas(),
                         .resources = resources_of(report),
                         .dram_bytes = dram_bytes,
                         .working_set_bytes = dram_bytes,
                         .unmatched_weight = paths->unmatched_weight};
  for (const predict::CtaTotals& one : run->totals) launch.cta_instructions.push_back(one.instructions);
  for (const predict::PtxCta& one : run->ctas)
    launch.sample_instructions.push_back(one.place < run->totals.size() ? run->totals[one.place].instructions : 0);
  auto prediction = predict::predict(launch, gpu);
  if (!prediction) return prediction.error();
  answer.unmatched_weight = launch.unmatched_weight;
  answer.lines = pressure_of(*prediction, *kernel, *run);
  answer.prediction = std::move(*prediction);
  return answer;
}

namespace {

Result<std::vector<LaunchPrediction>> predict_all(const std::vector<LaunchReport>& reports,
                                                  const std::vector<predict::SassKernel>& sass, const Gpu& gpu,
                                                  const Grids& grids) {
  if (!grids.empty() && grids.size() != reports.size())
    return Diagnostic{.message = fmt::format("{} grids for {} launches", grids.size(), reports.size()),
                      .fix = "name one --grid for each launch, in their order",
                      .code = codes::usage_command_line};
  std::vector<LaunchPrediction> all;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    auto predicted = predict_launch(reports[i], sass, gpu, grids.empty() ? std::nullopt : std::optional(grids[i]));
    if (!predicted) return predicted.error();
    all.push_back(std::move(*predicted));
  }
  return all;
}

// Only there the way of warps is known.
Result<Gpu> predicted_gpu(const DeviceSelector& device, const std::string& instead) {
  if (capabilities_of(device).counters != CounterKind::exact)
    return Diagnostic{.message = fmt::format("{} ({}) is not predicted: only what runs on a virtual GPU is",
                                             device.to_string(), device.from),
                      .fix = "use --device virtual:" + instead,
                      .code = codes::usage_device};
  return find_gpu(device.gpu);
}

}  // namespace

Result<PredictionRun> predict_project(const Project& project, const PredictionRequest& request, Progress& progress) {
  const auto device = select_device(request.device, "virtual:" + project.cuda_device);
  if (!device) return device.error();
  const auto gpu = predicted_gpu(*device, project.cuda_device);
  if (!gpu) return gpu.error();
  const auto workload = profiled_workload(project, request.workload);
  if (!workload) return workload.error();

  progress.step("build", 10);
  const ReportFile report;
  auto kernel = gpu_runnable(project, *device, {.checks = "none", .report = report.path()}, progress);
  if (!kernel) return kernel.error();
  kernel->environment.emplace_back("VGPU_PATHS=1");
  const auto sass = sass_of_all(cubins_of(*kernel));
  if (!sass) return sass.error();

  progress.step("run", 10);
  const std::uint64_t seed = request.seed != 0 ? request.seed : fresh_seed();
  const auto counted = count_call(project, *device,
                                  {.kernel = *kernel,
                                   .report = report.path(),
                                   .workload = *workload,
                                   .seed = seed,
                                   .reference = request.reference});
  if (!counted) return counted.error();
  if (request.reference != nullptr && !counted->findings.empty())
    return Diagnostic{.message = project.name + " is not right: " + counted->findings.front().what,
                      .fix = "cudadent gate " + project.directory,
                      .code = counted->findings.front().code};

  progress.step("predict", 2);
  PredictionRun run{.project = project.name,
                    .device = device->to_string(),
                    .workload = workload->name,
                    .image_hash = kernel->content_hash,
                    .boost_clock_mhz = gpu->boost_clock_mhz.value};
  std::vector<LaunchReport> reports;
  for (const LaunchProfile& launch : counted->launches) reports.push_back(launch.report);
  auto launches = predict_all(reports, *sass, *gpu, request.grids);
  if (!launches) return launches.error();
  run.launches = std::move(*launches);
  progress.done();
  if (run.launches.empty())
    return Diagnostic{.message = "the call launched nothing: there is nothing to predict",
                      .fix = "look at cuda.launch and `when` in cudadent.toml",
                      .code = codes::predict_abstains};
  return run;
}

Result<PredictionRun> predict_report(const ReportRequest& request, Progress& progress) {
  if (std::error_code ignored; !std::filesystem::is_regular_file(request.report, ignored))
    return Diagnostic{.message = "there is no report " + request.report,
                      .fix = "run the program with VGPU_PATHS=1 and VGPU_REPORT=" + request.report,
                      .code = codes::usage_command_line};
  const auto device = select_device(request.device);
  if (!device) return device.error();
  const auto gpu = predicted_gpu(*device, "l4, the one that the program ran on");
  if (!gpu) return gpu.error();

  progress.step("disassemble", 2);
  const auto all = sass_of_all(request.cubins);
  if (!all) return all.error();

  progress.step("predict", 2);
  PredictionRun run{.project = std::filesystem::path(request.report).filename().string(),
                    .device = device->to_string(),
                    .boost_clock_mhz = gpu->boost_clock_mhz.value};
  std::vector<LaunchReport> reports = read_launches(request.report);
  std::erase_if(reports, [](const LaunchReport& one) { return one.kernel.empty(); });  // the context's, at its end
  for (const LaunchReport& report : reports) {
    // Plans look at the machine: what ran there is not what would run here.
    if (report.sms != gpu->sm_count.value)
      return Diagnostic{.message = fmt::format("{} ran on {} SMs, and {} has {}", report.kernel, report.sms,
                                               device->to_string(), gpu->sm_count.value),
                        .fix = "predict for the GPU that the program saw (VGPU_DEVICE)",
                        .code = codes::usage_device};
  }
  auto launches = predict_all(reports, *all, *gpu, request.grids);
  if (!launches) return launches.error();
  run.launches = std::move(*launches);
  progress.done();
  if (run.launches.empty())
    return Diagnostic{.message = request.report + " has no launch: there is nothing to predict",
                      .fix = "run the program with VGPU_PATHS=1 and VGPU_REPORT=" + request.report,
                      .code = codes::predict_abstains};
  return run;
}

}  // namespace flashmoe::workflow
