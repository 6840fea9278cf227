// NVIDIA's profiling library, loaded at run time and never linked, and what it can say without a GPU: which of the
// metrics somebody wants a chip has, and how often a launch is repeated to count them all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cupti_abi.hpp"
#include "support/result.hpp"

namespace flashmoe::runtime {

class Cupti {
 public:
  // A path, or a name that the loader finds. Another generation than what is written down in cupti_abi.hpp is refused.
  [[nodiscard]] static Result<std::shared_ptr<const Cupti>> open(const std::string& library);
  // The first that opens: the loader's, CUDA_HOME's, CUDA_PATH's, that of /usr/local/cuda.
  [[nodiscard]] static Result<std::shared_ptr<const Cupti>> find();
  ~Cupti() = default;  // the library stays loaded: it has hooks in the driver
  Cupti(const Cupti&) = delete;
  Cupti& operator=(const Cupti&) = delete;

  const cupti::Functions& call() const { return functions_; }
  [[nodiscard]] const std::string& library() const { return library_; }  // its path
  [[nodiscard]] std::uint32_t version() const { return version_; }
  // Success, or what the library says; of counters that are locked what the administrator has to do.
  [[nodiscard]] Result<Done> check(cupti::Code code, const char* what) const;

 private:
  Cupti() = default;
  std::string library_{};
  std::uint32_t version_ = 0;
  cupti::Functions functions_{};
};

// "CUDA 12.8", "CUDA 13.0"; of a version as cuptiGetVersion says it.
[[nodiscard]] std::string cupti_version_text(std::uint32_t version);

// The library's half of counting that runs on the host: one chip, and the metrics asked of it.
class CounterPlan {
 public:
  // `chip`: "AD104", as cuptiDeviceGetChipName says it. `availability`: what the device says of its own counters; empty
  // without one. Metrics that the chip does not have are left out, and named by refused().
  [[nodiscard]] static Result<CounterPlan> make(std::shared_ptr<const Cupti> cupti, const std::string& chip,
                                                std::span<const std::string> metrics,
                                                std::vector<std::uint8_t> availability = {});
  CounterPlan(CounterPlan&& other) noexcept;
  CounterPlan& operator=(CounterPlan&&) = delete;
  CounterPlan(const CounterPlan&) = delete;
  CounterPlan& operator=(const CounterPlan&) = delete;
  ~CounterPlan();

  [[nodiscard]] const std::vector<std::string>& metrics() const { return metrics_; }
  [[nodiscard]] const std::vector<std::string>& refused() const { return refused_; }
  [[nodiscard]] std::size_t passes() const { return passes_; }  // how often a launch is run
  [[nodiscard]] std::span<const std::uint8_t> config() const { return config_; }
  // What was counted in one range, in the order of metrics(); not finite: it was not.
  [[nodiscard]] Result<std::vector<double>> values(std::span<const std::uint8_t> counter_data, std::size_t range) const;

 private:
  CounterPlan() = default;
  std::shared_ptr<const Cupti> cupti_{};
  cupti::HostObject* host_ = nullptr;
  std::vector<std::uint8_t> availability_{};  // the library keeps a pointer to it
  std::vector<std::string> metrics_{}, refused_{};
  std::vector<std::uint8_t> config_{};
  std::size_t passes_ = 0;
};

}  // namespace flashmoe::runtime
