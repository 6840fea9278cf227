#include "runtime/cupti.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "runtime/counter_access.hpp"

namespace flashmoe::runtime {
namespace {

using cupti::sized;

constexpr const char* how_to_get_one =
    "install the CUPTI of CUDA 12.8 or 13 (it comes with the toolkit, in extras/CUPTI, and from PyPI as "
    "nvidia-cuda-cupti) and set CUDA_HOME, or profile with ncu";

// The name of the first function that is missing; empty: all are there.
std::string find_all(void* handle, cupti::Functions& f) {
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    void* symbol = dlsym(handle, name);
    if (symbol == nullptr && missing.empty()) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find("cuptiGetVersion", f.version);
  find("cuptiGetResultString", f.result_text);
  find("cuptiProfilerHostInitialize", f.host_initialize);
  find("cuptiProfilerHostDeinitialize", f.host_deinitialize);
  find("cuptiProfilerHostConfigAddMetrics", f.host_add_metrics);
  find("cuptiProfilerHostGetConfigImageSize", f.host_config_size);
  find("cuptiProfilerHostGetConfigImage", f.host_config);
  find("cuptiProfilerHostGetNumOfPasses", f.host_passes);
  find("cuptiProfilerHostEvaluateToGpuValues", f.host_evaluate);
  find("cuptiProfilerInitialize", f.profiler_initialize);
  find("cuptiProfilerGetCounterAvailability", f.counter_availability);
  find("cuptiDeviceGetChipName", f.chip_name);
  find("cuptiRangeProfilerEnable", f.range_enable);
  find("cuptiRangeProfilerDisable", f.range_disable);
  find("cuptiRangeProfilerStart", f.range_start);
  find("cuptiRangeProfilerStop", f.range_stop);
  find("cuptiRangeProfilerDecodeData", f.range_decode);
  find("cuptiRangeProfilerSetConfig", f.range_configure);
  find("cuptiRangeProfilerGetCounterDataSize", f.counter_data_size);
  find("cuptiRangeProfilerCounterDataImageInitialize", f.counter_data_initialize);
  find("cuptiRangeProfilerGetCounterDataInfo", f.counter_data_info);
  return missing;
}

std::vector<std::string> places() {
  std::vector<std::string> all{"libcupti.so.13", "libcupti.so.12"};
  const auto add = [&](const std::string& toolkit) {
    for (const char* folder : {"/extras/CUPTI/lib64", "/lib64", "/lib"})
      for (const char* name : {"/libcupti.so", "/libcupti.so.13", "/libcupti.so.12"})
        all.push_back(toolkit + folder + name);
  };
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* toolkit = std::getenv(home); toolkit != nullptr && *toolkit != '\0') add(toolkit);
  add("/usr/local/cuda");
  return all;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all(texts.size());
  std::transform(texts.begin(), texts.end(), all.begin(), [](const std::string& text) { return text.c_str(); });
  return all;
}

Result<cupti::HostObject*> host_for(const Cupti& cupti, const std::string& chip,
                                    const std::vector<std::uint8_t>& availability) {
  auto initialize = sized(&cupti::HostInitialize::host);
  initialize.chip = chip.c_str();
  initialize.availability = availability.empty() ? nullptr : availability.data();
  const auto made = cupti.check(cupti.call().host_initialize(&initialize), "cuptiProfilerHostInitialize");
  if (!made)
    return Diagnostic{.message = "CUPTI cannot plan counters for the chip " + chip + ": " + made.error().message,
                      .fix = "use a CUPTI that is at least as new as the GPU, with its libnvperf_host.so beside it"};
  return initialize.host;
}

void give_back(const Cupti& cupti, cupti::HostObject* host) {
  auto deinitialize = sized(&cupti::HostDeinitialize::host);
  deinitialize.host = host;
  (void)cupti.call().host_deinitialize(&deinitialize);
}

cupti::Code add(const Cupti& cupti, cupti::HostObject* host, const std::vector<std::string>& metrics) {
  auto names = pointers(metrics);
  auto add = sized(&cupti::HostAddMetrics::count);
  add.host = host;
  add.metrics = names.data();
  add.count = names.size();
  return cupti.call().host_add_metrics(&add);
}

}  // namespace

std::string cupti_version_text(std::uint32_t version) {
  if (version >= 130000) return "CUDA " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
  switch (version) {
    case 24:
      return "CUDA 12.6";
    case 26:
      return "CUDA 12.8";
    case 27:
    case 28:
      return "CUDA 12.9";
    default:
      return "API version " + std::to_string(version);
  }
}

Result<std::shared_ptr<const Cupti>> Cupti::open(const std::string& library) {
  std::shared_ptr<Cupti> cupti(new Cupti);
  cupti->library_ = library;
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Diagnostic{.message = std::string("CUPTI does not load: ") + (why != nullptr ? why : library),
                      .fix = how_to_get_one};
  }
  if (const std::string missing = find_all(handle, cupti->functions_); !missing.empty())
    return Diagnostic{.message = library + " is no CUPTI with a range profiler: it does not export " + missing,
                      .fix = how_to_get_one};
  // Which file it was: a process that may read little has to be let at it.
  if (Dl_info found{}; dladdr(reinterpret_cast<void*>(cupti->functions_.version), &found) != 0)
    cupti->library_ = found.dli_fname;
  if (const auto said = cupti->check(cupti->functions_.version(&cupti->version_), "cuptiGetVersion"); !said)
    return Diagnostic{.message = library + " does not say its version: " + said.error().message,
                      .fix = "CUPTI wants a driver at least as new as itself: " + std::string(how_to_get_one)};
  if (cupti->version_ < cupti::version_of_cuda_12_8 || cupti->version_ >= cupti::version_of_cuda_14_0)
    return Diagnostic{.message = library + " is the CUPTI of " + cupti_version_text(cupti->version_) +
                                 ", and only those of CUDA 12.8 to 13 are known to be called as we do",
                      .fix = how_to_get_one};
  return std::shared_ptr<const Cupti>(std::move(cupti));
}

Result<std::shared_ptr<const Cupti>> Cupti::find() {
  std::string refusals;
  for (const std::string& place : places()) {
    auto found = open(place);
    if (found) return found;
    // Of a library that is there but not the right one people want to know; that a place is empty they do not.
    if (found.error().message.find("does not load") == std::string::npos) refusals += "; " + found.error().message;
  }
  return Diagnostic{.message = "no CUPTI is found by the loader, in CUDA_HOME or in /usr/local/cuda" + refusals,
                    .fix = how_to_get_one};
}

Result<Done> Cupti::check(cupti::Code code, const char* what) const {
  if (code == cupti::success) return Done{};
  if (code == cupti::insufficient_privileges || code == cupti::virtualized_device_insufficient_privileges)
    return locked_counters("libcupti");
  const char* text = nullptr;
  if (functions_.result_text(code, &text) != cupti::success || text == nullptr) text = "no description";
  return Diagnostic{.message = std::string(what) + ": " + text + " (" + std::to_string(code) + ")",
                    .fix = code == cupti::virtualized_device
                               ? "counters of a virtual GPU (vGPU) are for its host to allow; profile without them"
                               : "profile with ncu, or without counters"};
}

Result<CounterPlan> CounterPlan::make(std::shared_ptr<const Cupti> cupti, const std::string& chip,
                                      std::span<const std::string> metrics, std::vector<std::uint8_t> availability) {
  CounterPlan plan;
  plan.cupti_ = std::move(cupti);
  plan.availability_ = std::move(availability);
  const Cupti& library = *plan.cupti_;
  for (const std::string& metric : metrics) {
    const auto host = host_for(library, chip, plan.availability_);
    if (!host) return host.error();
    const bool known = add(library, *host, {metric}) == cupti::success;
    give_back(library, *host);
    (known ? plan.metrics_ : plan.refused_).push_back(metric);
  }
  if (plan.metrics_.empty())
    return Diagnostic{.message = "the chip " + chip + " has none of the " + std::to_string(metrics.size()) +
                                 " metrics that are wanted",
                      .fix = "use a CUPTI that is at least as new as the GPU"};
  const auto host = host_for(library, chip, plan.availability_);
  if (!host) return host.error();
  plan.host_ = *host;
  if (const auto done = library.check(add(library, plan.host_, plan.metrics_), "cuptiProfilerHostConfigAddMetrics");
      !done)
    return done.error();
  auto size = sized(&cupti::HostConfigSize::bytes);
  size.host = plan.host_;
  if (const auto done = library.check(library.call().host_config_size(&size), "cuptiProfilerHostGetConfigImageSize");
      !done)
    return done.error();
  plan.config_.resize(size.bytes);
  auto config = sized(&cupti::HostConfig::config);
  config.host = plan.host_;
  config.bytes = plan.config_.size();
  config.config = plan.config_.data();
  if (const auto done = library.check(library.call().host_config(&config), "cuptiProfilerHostGetConfigImage"); !done)
    return done.error();
  auto passes = sized(&cupti::HostPasses::passes);
  passes.bytes = plan.config_.size();
  passes.config = plan.config_.data();
  if (const auto done = library.check(library.call().host_passes(&passes), "cuptiProfilerHostGetNumOfPasses"); !done)
    return done.error();
  plan.passes_ = passes.passes;
  return plan;
}

CounterPlan::CounterPlan(CounterPlan&& other) noexcept
    : cupti_(std::move(other.cupti_)),
      host_(std::exchange(other.host_, nullptr)),
      availability_(std::move(other.availability_)),
      metrics_(std::move(other.metrics_)),
      refused_(std::move(other.refused_)),
      config_(std::move(other.config_)),
      passes_(other.passes_) {}

CounterPlan::~CounterPlan() {
  if (host_ != nullptr) give_back(*cupti_, host_);
}

Result<std::vector<double>> CounterPlan::values(std::span<const std::uint8_t> counter_data, std::size_t range) const {
  std::vector<double> values(metrics_.size());
  auto names = pointers(metrics_);
  auto evaluate = sized(&cupti::HostEvaluate::values);
  evaluate.host = host_;
  evaluate.counter_data = counter_data.data();
  evaluate.counter_data_bytes = counter_data.size();
  evaluate.range = range;
  evaluate.metrics = names.data();
  evaluate.count = names.size();
  evaluate.values = values.data();
  if (const auto done = cupti_->check(cupti_->call().host_evaluate(&evaluate), "cuptiProfilerHostEvaluateToGpuValues");
      !done)
    return done.error();
  return values;
}

}  // namespace flashmoe::runtime
