// The sections of the page, as HTML.
#pragma once

#include <string>

#include "workflow/report/run_report.hpp"

namespace flashmoe::workflow {

// What happened: sections_of_changes.cpp
[[nodiscard]] std::string speed_section(const RunReport& report);
[[nodiscard]] std::string ladder_section(const RunReport& report);
[[nodiscard]] std::string changes_section(const RunReport& report);
[[nodiscard]] std::string refused_section(const RunReport& report);
// Why it is as fast as it is: sections_of_kernel.cpp
[[nodiscard]] std::string limits_section(const RunReport& report);
[[nodiscard]] std::string source_section(const RunReport& report);
[[nodiscard]] std::string gates_section(const RunReport& report);
[[nodiscard]] std::string timed_section(const RunReport& report);
[[nodiscard]] std::string money_section(const RunReport& report);
[[nodiscard]] std::string goals_section(const RunReport& report);

// Figures of the changes over their numbers, a chart for each kind of evidence and unit.
[[nodiscard]] std::vector<StepChart> speed_charts(const RunReport& report);
// Kept changes together after each of them: 1 is the start. A chart for each workload and evidence.
[[nodiscard]] std::vector<BarChart> ladder_charts(const RunReport& report);

}  // namespace flashmoe::workflow
