// What the worker learns of one call on a card: what the driver says of its kernels, and the counters that CUPTI reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/kernel_facts.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

struct LaunchCount {
  std::string kernel{};  // its symbol
  runtime::KernelFacts facts{};
  std::map<std::string, double> counted{};  // by the card's own names
};

struct CallCount {
  runtime::DeviceFacts card{};
  std::vector<LaunchCount> launches{};  // in their order
  Diagnostic not_counted{};             // why there are no counters; empty: there are
};

// As one line, and back.
[[nodiscard]] std::string count_text(const CallCount& count);
[[nodiscard]] Result<CallCount> count_from(const std::string& text);

}  // namespace flashmoe::workflow
