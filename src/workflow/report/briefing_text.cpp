// A briefing as an agent reads it: a line a fact, in the order in which one needs them.
#include <fmt/format.h>

#include "support/foreign_text.hpp"
#include "workflow/report/briefing.hpp"

namespace flashmoe::workflow {
namespace {

std::string rest_of(std::size_t more, const std::string& command) {
  return more == 0 ? "" : fmt::format("  ... and {} more: {}\n", more, command);
}

std::string state_text(const Briefing& briefing) {
  std::string text = "STATE\n";
  if (!briefing.gate) {
    text += "  gate    never run on this device\n";
  } else {
    text += fmt::format("  gate    {} (record {}{}): {}\n", briefing.gate->outcome, briefing.gate->record,
                        briefing.gate->of_these_sources ? "" : ", of other sources than these",
                        in_marks(briefing.gate->summary));
  }
  if (briefing.speed) {
    text += fmt::format("  speed   {}; evidence: {} (record {})\n", briefing.speed->says, briefing.speed->evidence,
                        briefing.speed->record);
  } else {
    text += "  speed   no figure yet\n";
  }
  if (!briefing.journal.empty())
    text += fmt::format("  journal {} (cudadent journal --check)\n", in_marks(briefing.journal));
  if (!briefing.edit.empty()) text += fmt::format("  edit    the working tree has one, {}\n", briefing.edit);
  if (briefing.kept.all.empty()) text += "  kept    nothing\n";
  for (const BriefTrial& one : briefing.kept.all)
    text += fmt::format("  kept    {}: {} (record {})\n", in_marks(one.hypothesis), in_marks(one.why), one.record);
  return text + rest_of(briefing.kept.more, "cudadent journal --kind iteration");
}

std::string bottleneck_text(const Briefing& briefing) {
  if (!briefing.bottleneck) return fmt::format("BOTTLENECK none named: {}\n", briefing.no_bottleneck);
  const BriefBottleneck& named = *briefing.bottleneck;
  std::string text = fmt::format("BOTTLENECK ({}, workload {}, record {}): {}\n  change  {}\n", named.rule,
                                 named.workload, named.record, named.says, named.change);
  text += fmt::format("  expect  {} from {:.4g} to {:.4g}; up to {:.1f}x, an estimate\n", named.expected.name,
                      named.expected.from, named.expected.to, named.expected_gain);
  for (const BriefLine& line : named.lines)
    text += fmt::format("  line    {} {}: {}\n", line.place, in_marks(line.text), line.says);
  std::string further;
  for (const std::string& rule : named.further) further += (further.empty() ? "" : ", ") + rule;
  if (!further.empty()) text += fmt::format("  then    {} (cudadent advise)\n", further);
  return text;
}

std::string moves_text(const Briefing& briefing) {
  std::string text = "ALLOWED MOVES\n";
  for (const BriefMove& move : briefing.moves.all) {
    std::string untried;
    for (const std::string& value : move.untried) untried += (untried.empty() ? "" : ", ") + value;
    text += fmt::format("  point.toml  {} = {}, not tried: {}\n", move.tunable, move.value, untried);
  }
  text += rest_of(briefing.moves.more, "see [tunables] in cudadent.toml");
  for (const std::string& file : briefing.files.all) text += fmt::format("  edit        {}\n", in_marks(file));
  text += rest_of(briefing.files.more, "git ls-files");
  return text +
         "  New headers may be added. Launch geometry ([[cuda.instances]] in cudadent.toml) through cudadent try.\n"
         "  Everything else judges or is the tool's own, and is refused.\n";
}

std::string failed_text(const Briefing& briefing) {
  if (briefing.failed.all.empty()) return "FAILED nothing so far\n";
  std::string text = "FAILED (the latest first, alike ones merged)\n";
  for (const BriefTrial& one : briefing.failed.all) {
    text += fmt::format("  {}x {} {}: {} (record {})\n", one.times, one.verdict, in_marks(one.hypothesis),
                        in_marks(one.why), one.record);
  }
  return text + rest_of(briefing.failed.more, "cudadent journal --kind iteration");
}

std::string budget_text(const BriefBudget& budget) {
  std::string text = fmt::format("BUDGET LEFT {} of {} iterations, {:.1f} of {:.1f} minutes, ",
                                 std::max(0, budget.most_iterations - budget.iterations), budget.most_iterations,
                                 std::max(0.0, budget.most_minutes - budget.minutes), budget.most_minutes);
  if (budget.most_dollars) {
    text +=
        fmt::format("${:.2f} of ${:.2f}", std::max(0.0, *budget.most_dollars - budget.dollars), *budget.most_dollars);
  } else {
    text += fmt::format("dollars not limited, ${:.2f} spent", budget.dollars);
  }
  return text + fmt::format(" at ${:.2f} an hour\n", budget.dollars_an_hour);
}

}  // namespace

std::string briefing_text(const Briefing& briefing) {
  std::string text = fmt::format("{} on {}, run {}\n{}\n", briefing.project, briefing.device, visible(briefing.run, 60),
                                 foreign_text_notice);
  text += state_text(briefing) + bottleneck_text(briefing) + moves_text(briefing) + failed_text(briefing) +
          budget_text(briefing.budget);
  return text + "NEXT " + briefing.next + "\n";
}

}  // namespace flashmoe::workflow
