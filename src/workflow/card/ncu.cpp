#include "workflow/card/ncu.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/counter_access.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/card/counters_map.hpp"
#include "workflow/card/ncu_script.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/runner/session.hpp"

namespace flashmoe::workflow {
namespace {

// What a report says of the launch itself. Most of it ncu collects by itself; asked for, it is there whatever else is.
constexpr const char* launch_metrics[] = {"launch__grid_dim_x",
                                          "launch__grid_dim_y",
                                          "launch__grid_dim_z",
                                          "launch__block_dim_x",
                                          "launch__block_dim_y",
                                          "launch__block_dim_z",
                                          "launch__registers_per_thread",
                                          "launch__shared_mem_per_block_static",
                                          "launch__shared_mem_per_block_dynamic"};

std::string tail_of(const std::string& text) {
  constexpr std::size_t most = 2000;
  return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

CardLaunch launch_from(const Json& json) {
  const Json* numbers = field_in(json, "numbers");
  const auto whole = [&](const char* name, std::int64_t missing) {
    return numbers != nullptr && field_in(*numbers, name) != nullptr
               ? static_cast<std::int64_t>(number_in(*numbers, name))
               : missing;
  };
  CardLaunch launch{
      .kernel = text_in(json, "kernel"),
      .name = text_in(json, "name"),
      .grid = {whole("launch__grid_dim_x", 1), whole("launch__grid_dim_y", 1), whole("launch__grid_dim_z", 1)},
      .block = {whole("launch__block_dim_x", 1), whole("launch__block_dim_y", 1), whole("launch__block_dim_z", 1)},
      .dynamic_shared_bytes = whole("launch__shared_mem_per_block_dynamic", 0),
      .facts = {.registers = static_cast<int>(whole("launch__registers_per_thread", 0)),
                .static_shared_bytes = static_cast<int>(whole("launch__shared_mem_per_block_static", 0))}};
  if (numbers != nullptr)
    for (const auto& [name, value] : numbers->items())
      if (value.is_number()) launch.counted.emplace(name, value.get<double>());
  return launch;
}

runtime::DeviceFacts card_from(const Json& launch) {
  runtime::DeviceFacts card;
  if (const Json* texts = field_in(launch, "texts")) card.name = text_in(*texts, "device__attribute_display_name");
  if (const Json* numbers = field_in(launch, "numbers")) {
    card.sm = static_cast<int>(10 * number_in(*numbers, "device__attribute_compute_capability_major") +
                               number_in(*numbers, "device__attribute_compute_capability_minor"));
    card.sm_count = static_cast<int>(number_in(*numbers, "device__attribute_multiprocessor_count"));
  }
  return card;
}

}  // namespace

Result<std::string> find_ncu() {
  std::vector<std::string> names{"ncu"};
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* toolkit = std::getenv(home); toolkit != nullptr && *toolkit != '\0')
      names.push_back(std::string(toolkit) + "/bin/ncu");
  names.emplace_back("/usr/local/cuda/bin/ncu");
  if (std::string found = find_program(names); !found.empty()) return found;
  return Diagnostic{.message = "no ncu: it is neither on PATH, in CUDA_HOME/bin nor in /usr/local/cuda/bin",
                    .fix = "install Nsight Compute (package nsight-compute, or the whole CUDA toolkit)"};
}

std::vector<std::string> ncu_command(const std::string& ncu, const NcuRequest& request, const std::string& report) {
  std::vector<std::string> metrics = wanted_card_metrics(request.sm);
  metrics.insert(metrics.end(), std::begin(launch_metrics), std::end(launch_metrics));
  std::vector<std::string> argv{ncu, "--target-processes", "all", "--replay-mode", "kernel", "--launch-count",
                                std::to_string(request.launches), "--cache-control", "all",
                                // To lock clocks needs rights that few have, and counts do not depend on them.
                                "--clock-control", "none", "--metrics", fmt::format("{}", fmt::join(metrics, ",")),
                                "--force-overwrite", "--export", report};
  argv.insert(argv.end(), request.command.begin(), request.command.end());
  return argv;
}

Result<NcuReport> read_ncu_report(const std::string& report, const std::vector<std::string>& module_folders) {
  // Isolated: what lies in the working directory is no package.
  std::vector<std::string> argv{python_program(), "-I", "-c", ncu_report_script, report};
  argv.insert(argv.end(), module_folders.begin(), module_folders.end());
  argv.emplace_back("/opt/nvidia/nsight-compute/*/extras/python");
  argv.emplace_back("/usr/local/cuda/nsight-compute-*/extras/python");
  const auto ran = run_process({.argv = std::move(argv), .limit = std::chrono::seconds(60)});
  if (!ran) return ran.error();
  const Json json = parse_json(ran->out);
  const auto unreadable = [&](const std::string& why, const std::string& fix = "") {
    return Diagnostic{.message = fmt::format("the report {} cannot be read: {}", report, why), .fix = fix};
  };
  if (!json.is_object()) return unreadable(fmt::format("its reader {}\n{}", ran->describe(), tail_of(ran->err)));
  if (const std::string error = text_in(json, "error"); !error.empty()) return unreadable(error, text_in(json, "fix"));
  NcuReport read;
  for (const Json& launch : list_in(json, "launches")) {
    if (read.launches.empty()) read.card = card_from(launch);
    read.launches.push_back(launch_from(launch));
  }
  // The package opens anything, and finds nothing in what is no report.
  if (read.launches.empty())
    return unreadable("there is no launch in it", "see that the program launches a kernel, and on this GPU");
  return read;
}

Result<NcuReport> run_ncu(const std::string& ncu, const NcuRequest& request, Progress& progress,
                          const std::vector<std::string>& module_folders) {
  const TemporaryDirectory directory;
  if (directory.path().empty()) return Diagnostic{.message = "no temporary directory can be made for ncu's report"};
  const std::string report = (directory.path() / "call.ncu-rep").string();
  progress.update(fmt::format("ncu, {} launches", request.launches));
  const auto ran = run_process(
      {.argv = ncu_command(ncu, request, report), .environment = request.environment, .limit = request.limit},
      [&] { progress.update("ncu"); });
  if (!ran) return ran.error();
  if (runtime::says_that_counters_are_locked(ran->out + ran->err)) return runtime::locked_counters("ncu");
  if (ran->timed_out)
    return Diagnostic{.message = "ncu " + ran->describe(),
                      .fix = "profile a smaller workload: every launch is repeated about ten times"};
  std::error_code none;
  if (!ran->ok() || !std::filesystem::exists(report, none))
    return Diagnostic{.message = fmt::format("ncu {} and left {}\n{}", ran->describe(),
                                             std::filesystem::exists(report, none) ? "a report" : "no report",
                                             tail_of(ran->out + ran->err)),
                      .fix = "run it by hand to see more: " + ncu + " --version"};
  auto folders = module_folders;
  const auto real = std::filesystem::canonical(ncu, none);
  if (!none) folders.push_back((real.parent_path() / "extras" / "python").string());
  return read_ncu_report(report, folders);
}

Result<Done> take_counters(CardCall& call, const NcuReport& report) {
  if (report.launches.size() != call.launches.size())
    return Diagnostic{.message = fmt::format("ncu counted {} launches where the call makes {}", report.launches.size(),
                                             call.launches.size())};
  for (std::size_t i = 0; i < call.launches.size(); ++i) {
    if (report.launches[i].kernel != call.launches[i].kernel)
      return Diagnostic{.message = fmt::format("launch {} of ncu's report is of {} where the call launches {}", i + 1,
                                               report.launches[i].kernel, call.launches[i].kernel)};
  }
  for (std::size_t i = 0; i < call.launches.size(); ++i) call.launches[i].counted = report.launches[i].counted;
  call.counted_by = CountedBy::ncu;
  return Done{};
}

}  // namespace flashmoe::workflow
