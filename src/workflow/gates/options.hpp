// What a gate run is asked to do.
#pragma once

#include <cstdint>
#include <string>

namespace flashmoe::workflow {

struct GateOptions {
  std::string device{};    // empty: FLASHMOE_DEVICE, else cpu
  std::string only{};      // a gate; the build it needs is done without being judged
  std::string until{};     // the last gate to run
  std::uint64_t seed = 0;  // 0: a fresh one
  int threads = 1;
  bool accept_baseline = false;
  bool record = true;
  double limit_seconds_per_workload = 10;  // of timing
};

}  // namespace flashmoe::workflow
