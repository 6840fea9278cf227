#include "workflow/advise/host.hpp"

#include <algorithm>

#include "workflow/advise/advise.hpp"
#include "workflow/advise/builtin.hpp"

namespace flashmoe::workflow {

Values counters_of(const HostCall& call) {
  const auto counted = [&](const char* name) {
    const double* found = find_named(call.counted, name);
    return found == nullptr ? 0 : *found;
  };
  const double seconds = std::max(call.seconds, 1e-9);
  return {{"microseconds", call.seconds * 1e6},
          {"processors", call.processor_seconds / seconds},
          {"threads", call.threads},
          {"bytes", call.bytes},
          {"memory_microseconds", call.bytes_per_second > 0 ? call.bytes / call.bytes_per_second * 1e6 : 0},
          {"counted", call.counted.empty() ? 0 : 1},
          {"cycles", counted("cycles")},
          {"instructions", counted("instructions")},
          {"cache_misses", counted("cache_misses")}};
}

Result<std::vector<Advice>> advise(const HostCall& call) {
  const Values counters = counters_of(call);
  const auto rules = parse_rules(builtin_host_rules_text(), "host_rules.toml", counters);
  if (!rules) return rules.error();
  return advise(counters, *rules);
}

}  // namespace flashmoe::workflow
