#include "workflow/gpu/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/driver.hpp"
#include "support/count_or_percent.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::string before(const std::string& first, const char* variable, char separator = ':') {
  const char* rest = std::getenv(variable);
  return fmt::format("{}={}{}", variable, first, rest && *rest ? fmt::format("{}{}", separator, rest) : "");
}

// What the driver understands (VGPU_CHECK), so that a typing error is said before the program has run for an hour.
Result<Done> check_names(const std::string& checks) {
  if (checks == "all" || checks == "none") return Done{};
  constexpr std::array known{"memcheck", "initcheck", "racecheck", "synccheck"};
  std::istringstream list(checks);
  for (std::string name; std::getline(list, name, ',');) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Diagnostic{.message = fmt::format("there is no check '{}'", name),
                      .fix = fmt::format("--check all, none, or a list of {}", fmt::join(known, ",")),
                      .code = codes::usage_command_line};
  }
  return Done{};
}

// Findings of some CTAs would pass for those of all, and a prediction needs every one.
Result<Done> check_sample(const ProgramOptions& options) {
  if (options.sample.empty()) return Done{};
  const auto refused = [](std::string message, std::string fix) {
    return Diagnostic{.message = std::move(message), .fix = std::move(fix), .code = codes::usage_command_line};
  };
  if (options.checks != "none" || options.clock != "lower-bound")
    return refused("checks and predictions need every CTA, not a sample of them",
                   "--check none --sample " + options.sample + ", or no --sample");
  if (parse_count_or_percent(options.sample)) return Done{};
  return refused(fmt::format("--sample {} is neither a number of CTAs nor a percentage", options.sample),
                 "--sample 64 or --sample 5%");
}

// It is written by the program's process, which would only complain.
Result<Done> check_report(const std::string& report) {
  if (report.empty() || std::ofstream(report, std::ios::app)) return Done{};
  return Diagnostic{.message = "the report " + report + " cannot be written",
                    .fix = "--report with a file in a directory that is there and yours",
                    .code = codes::run_cannot_start};
}

}  // namespace

Result<DeviceSelector> program_device(const ProgramOptions& options) {
  auto device = select_device(options.device, "virtual:l4");
  if (device && device->kind != DeviceKind::virtual_gpu)
    return Diagnostic{.message = fmt::format("{} ({}) is no virtual GPU; a program on it needs no help from here",
                                             device->to_string(), device->from),
                      .fix = "use --device virtual:l4",
                      .code = codes::usage_device};
  return device;
}

Result<std::vector<std::string>> program_environment(const ProgramOptions& options) {
  const auto device = program_device(options);
  if (!device) return device.error();
  if (const auto available = device_available(*device); !available) return available.error();
  if (const auto named = check_names(options.checks); !named) return named.error();
  if (const auto sampled = check_sample(options); !sampled) return sampled.error();
  if (const auto writable = check_report(options.report); !writable) return writable.error();
  const auto library = runtime::virtual_driver_library();
  if (!library) return library.error();
  const std::filesystem::path directory = std::filesystem::path(*library).parent_path();
  std::vector<std::string> environment{before(directory.string(), "LD_LIBRARY_PATH"), "VGPU_DEVICE=" + device->gpu,
                                       "VGPU_CHECK=" + options.checks};
  std::string first;  // of those that programs bring along themselves
  for (const char* name : {"libnvJitLink.so.13", "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"}) {
    const auto ours = directory / name;
    if (std::filesystem::exists(ours)) first += (first.empty() ? "" : ":") + ours.string();
  }
  if (!first.empty()) environment.push_back(before(first, "LD_PRELOAD"));
  // PyCUDA compiles to cubins: without this they hold no PTX.
  environment.push_back(before("-lineinfo", "PYCUDA_DEFAULT_NVCC_FLAGS", ' '));
  if (!options.report.empty())
    environment.push_back("VGPU_REPORT=" + std::filesystem::absolute(options.report).string());
  if (!options.counters) environment.emplace_back("VGPU_COUNTERS=0");
  environment.push_back("VGPU_CLOCK=" + options.clock);
  if (options.clock == "predicted") {
    std::error_code failed;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
    if (!failed) environment.push_back("VGPU_PREDICTOR=" + self.string());
  }
  if (!options.sample.empty()) environment.push_back("VGPU_SAMPLE=" + options.sample);
  if (options.seed != 0) environment.push_back(fmt::format("VGPU_SEED={}", options.seed));
  return environment;
}

}  // namespace flashmoe::workflow
