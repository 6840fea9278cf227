#include "workflow/report/changes.hpp"

#include <algorithm>

#include "workflow/journal/record.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::workflow {
namespace {

// Of one change, in characters: the record has all of it, and a page of thousands of changes stays one that opens.
constexpr std::size_t most_said = 300;

Fate fate_of(const std::string& verdict) {
  if (verdict == name_of(Decision::keep)) return Fate::kept;
  if (verdict == name_of(Decision::revert)) return Fate::left;
  return verdict == name_of(Ending::candidate_failed) ? Fate::refused : Fate::open;
}

ChangeSummary change_of(const Record& record, const CompareRecord& comparison) {
  const std::string note = comparison.note.value_or("");
  return {.id = record.id,
          .change = shortened(note.empty() && comparison.candidate ? comparison.candidate->name : note, most_said),
          .commit = record.commit.value_or(""),
          .fate = fate_of(record.verdict),
          .why = shortened(comparison.problem.empty() ? comparison.not_predicted : comparison.problem, most_said),
          .phase = comparison.phase,
          .workload = comparison.workload,
          .verdict = record.verdict,
          .gain = comparison.gain,
          .predicted = comparison.predicted,
          .counters = comparison.counters,
          .pairs = comparison.pairs_used,
          .minimum_detectable_gain = comparison.calibration.minimum_detectable_gain,
          .problem = comparison.problem,
          .fix = comparison.fix,
          .seconds = record.seconds,
          .comparison = comparison.identity(),
          .evidence = evidence_text(record)};
}

// A loop decides; where a person does, the verdict is the word. What came to no figure because it is wrong, or may not
// be, was refused.
Fate fate_of(const IterationRecord& iteration, const ChangeSummary& change, bool was_compared) {
  const Fate fate = fate_of(change.verdict);
  const bool has_figure = change.gain || change.predicted;
  if (change.verdict == "REFUSED" || fate == Fate::refused) return Fate::refused;
  if (fate == Fate::left && (!was_compared || (!change.problem.empty() && !has_figure))) return Fate::refused;
  if (!was_compared || iteration.decision.empty()) return fate;
  return iteration.decision == "advance" ? Fate::kept : Fate::left;
}

}  // namespace

const char* name_of(Fate fate) {
  switch (fate) {
    case Fate::kept:
      return "kept";
    case Fate::left:
      return "left";
    case Fate::refused:
      return "refused";
    case Fate::open:
      break;
  }
  return "open";
}

std::string evidence_text(const Record& record) {
  return record.evidence ? text_of(*record.evidence) : "not recorded";
}

void add_change(const Record& record, const CompareRecord& comparison, std::vector<ChangeSummary>& changes) {
  ChangeSummary change = change_of(record, comparison);
  for (ChangeSummary& earlier : changes) {
    if (comparison.key && earlier.comparison == change.comparison) {
      earlier = std::move(change);
      return;
    }
  }
  changes.push_back(std::move(change));
}

void add_iteration(const Record& record, const IterationRecord& iteration, RunSummary& summary) {
  std::vector<ChangeSummary>& changes = summary.changes;
  auto change = std::find_if(changes.begin(), changes.end(), [&](const ChangeSummary& one) {
    return !iteration.comparison.empty() && one.id == iteration.comparison;
  });
  const bool was_compared = change != changes.end();
  if (was_compared) {
    summary.busy_seconds -= change->seconds;  // of which the iteration's are part
  } else {
    change = changes.insert(changes.end(), {.id = record.id, .evidence = evidence_text(record)});
  }
  if (!iteration.hypothesis.empty()) change->change = shortened(iteration.hypothesis, most_said);
  change->commit = iteration.candidate;
  change->verdict = record.verdict;
  change->fate = fate_of(iteration, *change, was_compared);
  change->why = shortened(iteration.ground.empty() ? iteration.summary : iteration.ground, most_said);
  change->proposer = iteration.proposer;
  change->rule = iteration.rule;
  change->files = iteration.files;
  change->seconds = record.seconds;
  if (change->fix.empty()) change->fix = iteration.fix;
}

}  // namespace flashmoe::workflow
