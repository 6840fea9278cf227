// Counters of launches on a real GPU, by CUPTI's range profiler: what is launched between start() and stop() is counted
// launch by launch. A launch is repeated as often as its counters need passes; CUPTI saves and restores the memory that
// it writes. Never run on a card: no GPU was there to try it; what CUPTI does without one is tested.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cupti.hpp"
#include "runtime/device.hpp"

namespace flashmoe::runtime {

class RangeProfiler {
 public:
  // `most_launches`: how many there are at most between start() and stop().
  [[nodiscard]] static Result<std::unique_ptr<RangeProfiler>> create(const std::shared_ptr<const Cupti>& cupti,
                                                                     const std::shared_ptr<Context>& context,
                                                                     std::span<const std::string> metrics,
                                                                     std::size_t most_launches);
  ~RangeProfiler();
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  [[nodiscard]] Result<Done> start();
  [[nodiscard]] Result<Done> stop();  // after the launches have been waited for
  // By launch, in their order: the metrics that were counted. What the chip does not have is not among them.
  [[nodiscard]] Result<std::vector<std::map<std::string, double>>> read() const;
  [[nodiscard]] const CounterPlan& plan() const { return plan_; }

 private:
  RangeProfiler(std::shared_ptr<const Cupti> cupti, std::shared_ptr<Context> context, CounterPlan plan);
  std::shared_ptr<const Cupti> cupti_;
  std::shared_ptr<Context> context_;
  CounterPlan plan_;
  cupti::RangeObject* profiler_ = nullptr;
  std::vector<std::uint8_t> counter_data_{};
};

}  // namespace flashmoe::runtime
