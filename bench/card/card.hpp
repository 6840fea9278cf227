// The GPU that flashmoe_card talks to, and the lines that it prints.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/device.hpp"
#include "support/library_run.hpp"

namespace flashmoe::card {

using Line = nlohmann::ordered_json;

// The system's driver, or FLASHMOE_DRIVER; its first GPU, current while this lives. Throws when there is none.
class Card {
 public:
  Card();

  [[nodiscard]] const std::shared_ptr<runtime::Context>& device() const { return device_; }
  [[nodiscard]] const runtime::Driver& driver() const { return *driver_; }
  [[nodiscard]] const fms_context* library() const { return library_.get(); }
  [[nodiscard]] int attribute(runtime::cuda::DeviceAttribute attribute) const;
  [[nodiscard]] int architecture() const;  // 89
  [[nodiscard]] bool is_virtual() const { return driver_->is_virtual(); }

  // The card itself, for the first line.
  [[nodiscard]] Line description() const;
  // The kernel of a plan, and of the image that was loaded for it the part that this GPU takes, by its SHA-256.
  void name_kernel(const fms_attention_plan& plan, Line& line) const;
  // A line of JSON on standard output; what a virtual GPU did is called a rehearsal.
  void say(Line line) const;

 private:
  std::shared_ptr<const runtime::Driver> driver_;
  std::shared_ptr<runtime::Context> device_;
  std::unique_ptr<runtime::Context::Current> current_;
  testing::Context library_;
};

// Problems that are not begun because --limit has passed.
class Limit {
 public:
  explicit Limit(std::optional<double> seconds) : seconds_(seconds) {}
  // Whether there is time for it; if not, it is remembered as left out.
  [[nodiscard]] bool allows(const std::string& problem);
  // The last line, if anything was left out. Whether nothing was.
  [[nodiscard]] bool conclude(const Card& card) const;

 private:
  std::optional<double> seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::string> left_out_{};
};

}  // namespace flashmoe::card
