#include "vgpu/driver/machine.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace flashmoe::vgpu::driver {
namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

Result<std::uint64_t> number(const char* name, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return Diagnostic{.message = fmt::format("{}={} is not a number", name, text), .fix = fmt::format("{}=1", name)};
  return value;
}

Result<Watching> watching() {
  Watching asked;
  std::string_view checks = environment("VGPU_CHECK");
  while (!checks.empty()) {
    const auto comma = checks.find(',');
    const std::string_view one = checks.substr(0, comma);
    checks = comma == std::string_view::npos ? std::string_view{} : checks.substr(comma + 1);
    bool known = one.empty() || one == "none" || one == "leftovers";
    if (one == "leftovers") asked.leftovers = true;
    for (const auto& [name, flag] : {std::pair{"memcheck", &asked.memcheck},
                                     {"initcheck", &asked.initcheck},
                                     {"racecheck", &asked.racecheck},
                                     {"synccheck", &asked.synccheck}})
      if (one == name || one == "all") *flag = known = true;
    if (!known)
      return Diagnostic{.message = fmt::format("VGPU_CHECK: unknown check \"{}\"", one),
                        .fix = "VGPU_CHECK=all, none, or a list of memcheck,initcheck,racecheck,synccheck,leftovers"};
  }
  asked.report = environment("VGPU_REPORT");
  if (const auto text = environment("VGPU_COUNTERS"); text == "0") {
    asked.counters = false;
  } else if (!text.empty() && text != "1") {
    return Diagnostic{.message = fmt::format("VGPU_COUNTERS={} is neither 0 nor 1", text), .fix = "VGPU_COUNTERS=0"};
  }
  if (const auto text = environment("VGPU_PATHS"); text == "1") {
    asked.paths = true;
  } else if (!text.empty() && text != "0") {
    return Diagnostic{.message = fmt::format("VGPU_PATHS={} is neither 0 nor 1", text), .fix = "VGPU_PATHS=1"};
  }
  if (const auto text = environment("VGPU_CLOCK"); text == "predicted") {
    asked.predicted_clock = true;
  } else if (!text.empty() && text != "lower-bound") {
    return Diagnostic{.message = fmt::format("VGPU_CLOCK: unknown clock \"{}\"", text),
                      .fix = "VGPU_CLOCK=lower-bound or VGPU_CLOCK=predicted"};
  }
  if (const auto text = environment("VGPU_SAMPLE"); !text.empty()) {
    asked.sample = observe::SampleSize::parse(text);
    if (!asked.sample)
      return Diagnostic{.message = fmt::format("VGPU_SAMPLE={} is neither a number of CTAs nor a percentage", text),
                        .fix = "VGPU_SAMPLE=64 or VGPU_SAMPLE=5%"};
    if (asked.checks() || asked.paths || asked.predicted_clock)
      return Diagnostic{.message = "VGPU_SAMPLE counts some CTAs; checks, paths and predictions need every one",
                        .fix = "VGPU_CHECK=none without VGPU_PATHS and VGPU_CLOCK, or no VGPU_SAMPLE"};
  }
  std::uint64_t seed = 0;
  if (const auto text = environment("VGPU_SEED"); !text.empty()) {
    const auto value = number("VGPU_SEED", text);
    if (!value) return value.error();
    seed = *value;
  }
  asked.schedule.seed = seed;
  if (const auto text = environment("VGPU_SCHEDULE"); text == "adversarial") {
    asked.schedule = exec::Schedule::adversarial(seed);
  } else if (!text.empty() && text != "natural") {
    return Diagnostic{.message = fmt::format("VGPU_SCHEDULE: unknown schedule \"{}\"", text),
                      .fix = "VGPU_SCHEDULE=natural or VGPU_SCHEDULE=adversarial"};
  }
  if (const auto text = environment("VGPU_BUDGET"); !text.empty()) {
    const auto value = number("VGPU_BUDGET", text);
    if (!value) return value.error();
    asked.budget = *value;
  }
  return asked;
}

constexpr std::uint64_t most_devices = 8;

Result<Machine*> make() {
  const auto gpu = find_gpu(gpu_id());
  if (!gpu) return Diagnostic{.message = "VGPU_DEVICE: " + gpu.error().message, .fix = "VGPU_DEVICE=l4"};
  const auto architecture = find_architecture(std::string(gpu->architecture));
  if (!architecture) return architecture.error();
  if (const auto version = driver_version(); !version) return version.error();
  auto asked = watching();
  if (!asked) return asked.error();
  auto made = std::make_unique<Machine>();
  made->gpu = *gpu;
  made->architecture = *architecture;
  made->watching = std::move(*asked);
  if (const auto text = environment("VGPU_COUNT"); !text.empty()) {
    const auto value = number("VGPU_COUNT", text);
    if (!value) return value.error();
    if (*value < 1 || *value > most_devices)
      return Diagnostic{.message = fmt::format("VGPU_COUNT={}, allowed: 1 to {}", text, most_devices),
                        .fix = "VGPU_COUNT=2"};
    made->count = *value;
  }
  auto memory = memory::DeviceMemory::create(made->memory_bytes());
  if (!memory) return memory.error();
  made->memory.reset(*memory);
  return made.release();  // lives as long as the process: kernels may still be asked about at exit
}

}  // namespace

Result<int> driver_version() {
  constexpr int of_the_api = 13000;  // CUDA 13.0; PTX of any version is accepted
  const auto text = environment("VGPU_DRIVER_VERSION");
  if (text.empty()) return of_the_api;
  const auto value = number("VGPU_DRIVER_VERSION", text);
  if (value && *value >= 1000 && *value <= of_the_api) return static_cast<int>(*value);
  return Diagnostic{.message = fmt::format("VGPU_DRIVER_VERSION={}, allowed: 1000 to {}", text, of_the_api),
                    .fix = "VGPU_DRIVER_VERSION=12000, a driver of CUDA 12.0"};
}

std::string gpu_id() {
  const auto id = environment("VGPU_DEVICE");
  return id.empty() ? "l4" : std::string(id);
}

std::uint64_t budget_now(const Watching& watching) {
  if (watching.budget == 0) return 0;
  const auto again = number("VGPU_BUDGET", environment("VGPU_BUDGET"));
  return again && *again != 0 ? *again : watching.budget;
}

Result<Machine*> machine() {
  static const auto& one = *new Result<Machine*>(make());
  return one;
}

}  // namespace flashmoe::vgpu::driver
