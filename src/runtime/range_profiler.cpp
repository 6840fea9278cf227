#include "runtime/range_profiler.hpp"

#include <cmath>

namespace flashmoe::runtime {
namespace {

using cupti::sized;

Result<std::string> chip_of(const Cupti& cupti, int device) {
  auto name = sized(&cupti::ChipName::chip);
  name.device = static_cast<std::size_t>(device);
  if (const auto done = cupti.check(cupti.call().chip_name(&name), "cuptiDeviceGetChipName"); !done)
    return done.error();
  return std::string(name.chip != nullptr ? name.chip : "");
}

// Which counters this device lets anybody have: a chip has more than a board or a virtual machine shows.
Result<std::vector<std::uint8_t>> availability_of(const Cupti& cupti, cuda::ContextHandle context) {
  auto asked = sized(&cupti::CounterAvailability::image);
  asked.context = context;
  if (const auto done = cupti.check(cupti.call().counter_availability(&asked), "cuptiProfilerGetCounterAvailability");
      !done)
    return done.error();
  std::vector<std::uint8_t> image(asked.bytes);
  asked.image = image.data();
  if (const auto done = cupti.check(cupti.call().counter_availability(&asked), "cuptiProfilerGetCounterAvailability");
      !done)
    return done.error();
  return image;
}

}  // namespace

RangeProfiler::RangeProfiler(std::shared_ptr<const Cupti> cupti, std::shared_ptr<Context> context, CounterPlan plan)
    : cupti_(std::move(cupti)), context_(std::move(context)), plan_(std::move(plan)) {}

Result<std::unique_ptr<RangeProfiler>> RangeProfiler::create(const std::shared_ptr<const Cupti>& cupti,
                                                             const std::shared_ptr<Context>& context,
                                                             std::span<const std::string> metrics,
                                                             std::size_t most_launches) {
  const Context::Current current(*context);
  const cuda::Functions& driver = context->driver().call();
  cuda::ContextHandle handle = nullptr;
  cuda::DeviceHandle device = 0;
  if (const auto done = context->driver().check(driver.context_current(&handle), "cuCtxGetCurrent"); !done)
    return done.error();
  if (const auto done = context->driver().check(driver.context_device(&device), "cuCtxGetDevice"); !done)
    return done.error();

  auto initialize = sized(&cupti::ProfilerInitialize::reserved);
  if (const auto done = cupti->check(cupti->call().profiler_initialize(&initialize), "cuptiProfilerInitialize"); !done)
    return done.error();
  const auto chip = chip_of(*cupti, device);
  if (!chip) return chip.error();
  auto availability = availability_of(*cupti, handle);
  if (!availability) return availability.error();
  auto plan = CounterPlan::make(cupti, *chip, metrics, std::move(*availability));
  if (!plan) return plan.error();
  std::unique_ptr<RangeProfiler> made(new RangeProfiler(cupti, context, std::move(*plan)));

  auto enable = sized(&cupti::RangeEnable::profiler);
  enable.context = handle;
  if (const auto done = cupti->check(cupti->call().range_enable(&enable), "cuptiRangeProfilerEnable"); !done)
    return done.error();
  made->profiler_ = enable.profiler;

  std::vector<const char*> names;
  for (const std::string& metric : made->plan_.metrics()) names.push_back(metric.c_str());
  auto size = sized(&cupti::CounterDataSize::bytes);
  size.profiler = made->profiler_;
  size.metrics = names.data();
  size.count = names.size();
  size.most_ranges = most_launches;
  size.most_tree_nodes = static_cast<std::uint32_t>(most_launches);
  if (const auto done = cupti->check(cupti->call().counter_data_size(&size), "cuptiRangeProfilerGetCounterDataSize");
      !done)
    return done.error();
  made->counter_data_.resize(size.bytes);
  auto clear = sized(&cupti::CounterDataInitialize::counter_data);
  clear.profiler = made->profiler_;
  clear.bytes = made->counter_data_.size();
  clear.counter_data = made->counter_data_.data();
  if (const auto done =
          cupti->check(cupti->call().counter_data_initialize(&clear), "cuptiRangeProfilerCounterDataImageInitialize");
      !done)
    return done.error();

  auto configure = sized(&cupti::RangeConfigure::target_nesting_level);
  configure.profiler = made->profiler_;
  configure.config_bytes = made->plan_.config().size();
  configure.config = made->plan_.config().data();
  configure.counter_data_bytes = made->counter_data_.size();
  configure.counter_data = made->counter_data_.data();
  configure.most_ranges_a_pass = most_launches;
  configure.nesting_levels = 1;
  configure.least_nesting_level = 1;
  if (const auto done = cupti->check(cupti->call().range_configure(&configure), "cuptiRangeProfilerSetConfig"); !done)
    return done.error();
  return made;
}

RangeProfiler::~RangeProfiler() {
  if (profiler_ == nullptr) return;
  const Context::Current current(*context_);
  auto disable = sized(&cupti::RangeCall::profiler);
  disable.profiler = profiler_;
  (void)cupti_->call().range_disable(&disable);
}

Result<Done> RangeProfiler::start() {
  const Context::Current current(*context_);
  auto start = sized(&cupti::RangeCall::profiler);
  start.profiler = profiler_;
  return cupti_->check(cupti_->call().range_start(&start), "cuptiRangeProfilerStart");
}

Result<Done> RangeProfiler::stop() {
  const Context::Current current(*context_);
  auto stop = sized(&cupti::RangeStop::all_passes_are_done);
  stop.profiler = profiler_;
  if (const auto done = cupti_->check(cupti_->call().range_stop(&stop), "cuptiRangeProfilerStop"); !done)
    return done.error();
  // With kernel replay CUPTI itself repeats the launch; if it could not, what was counted is a part.
  if (stop.all_passes_are_done == 0)
    return Diagnostic{
        .message = "CUPTI did not get through all " + std::to_string(plan_.passes()) + " passes of the counters",
        .fix = "profile with ncu, or without counters"};
  auto decode = sized(&cupti::RangeDecode::dropped);
  decode.profiler = profiler_;
  if (const auto done = cupti_->check(cupti_->call().range_decode(&decode), "cuptiRangeProfilerDecodeData"); !done)
    return done.error();
  if (decode.dropped != 0)
    return Diagnostic{.message = "CUPTI dropped the counters of " + std::to_string(decode.dropped) +
                                 " launches: there were more than was said"};
  return Done{};
}

Result<std::vector<std::map<std::string, double>>> RangeProfiler::read() const {
  auto info = sized(&cupti::CounterDataInfo::ranges);
  info.counter_data = counter_data_.data();
  info.bytes = counter_data_.size();
  if (const auto done = cupti_->check(cupti_->call().counter_data_info(&info), "cuptiRangeProfilerGetCounterDataInfo");
      !done)
    return done.error();
  std::vector<std::map<std::string, double>> launches(info.ranges);
  for (std::size_t range = 0; range < info.ranges; ++range) {
    const auto values = plan_.values(counter_data_, range);
    if (!values) return values.error();
    for (std::size_t i = 0; i < values->size(); ++i)
      if (std::isfinite((*values)[i])) launches[range].emplace(plan_.metrics()[i], (*values)[i]);
  }
  return launches;
}

}  // namespace flashmoe::runtime
