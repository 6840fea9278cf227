// What limits a call of host code: rules (host_rules.toml of this folder) over its time, its bytes and, where they
// could be read, the processor's counters.
#pragma once

#include <vector>

#include "support/result.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

struct HostCall {
  double seconds = 0;
  double processor_seconds = 0;  // of all its threads
  int threads = 1;               // that it may use
  double bytes = 0;              // of inputs and outputs, each once
  double bytes_per_second = 0;   // that as many threads move on this machine, over as many bytes
  Named<double> counted{};       // "cycles", "instructions", "cache_misses"; empty: nothing was counted
};

// Under the names that the rules use.
[[nodiscard]] Values counters_of(const HostCall& call);
// The most worthwhile first; never empty.
[[nodiscard]] Result<std::vector<Advice>> advise(const HostCall& call);

}  // namespace flashmoe::workflow
