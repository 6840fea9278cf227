// When the loop stops, and what its record says of it then.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workflow/advise/advise.hpp"
#include "workflow/journal/run_record.hpp"
#include "workflow/optimize/optimize.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// How far the loop has come.
struct Progressed {
  const OptimizeReport& report;
  const std::vector<Advice>& advice;  // of the current version
  std::optional<double> ratio{};      // times the baseline's speed, where there is a clock
  double seconds = 0;
};

// Empty: go on.
[[nodiscard]] std::string reason_to_stop(const OptimizeRequest& request, const Project& project,
                                         const Progressed& progressed);

[[nodiscard]] RunRecord run_record(const OptimizeReport& report, bool has_clock);

}  // namespace flashmoe::workflow
