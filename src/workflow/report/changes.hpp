// Records of comparisons and iterations as changes of a summary.
#pragma once

#include <string>
#include <vector>

#include "workflow/report/summary.hpp"

namespace flashmoe::workflow {

struct CompareRecord;
struct IterationRecord;

// "measured (cpu: Xeon)"
[[nodiscard]] std::string evidence_text(const Record& record);
// A comparison that was stopped and went on later has two records; its last one counts.
void add_change(const Record& record, const CompareRecord& comparison, std::vector<ChangeSummary>& changes);
// Where a comparison came of it, its figures stand already; else the change did not get so far.
void add_iteration(const Record& record, const IterationRecord& iteration, RunSummary& summary);

}  // namespace flashmoe::workflow
