// --json of `cudadent brief`.
#include <algorithm>
#include <array>

#include "support/json.hpp"
#include "workflow/journal/json.hpp"
#include "workflow/output/output.hpp"
#include "workflow/report/briefing.hpp"

namespace flashmoe::workflow {
namespace {

// Where the answer has somebody else's words.
constexpr std::array untrusted{"state.gate.summary", "state.journal",           "state.kept[].hypothesis",
                               "state.kept[].why",   "bottleneck.lines[].text", "no_bottleneck",
                               "moves.files",        "failed[].hypothesis",     "failed[].why"};

Json trials_json(const Shown<BriefTrial>& trials) {
  Json list = Json::array();
  for (const BriefTrial& one : trials.all) {
    list.push_back({{"verdict", one.verdict},
                    {"hypothesis", one.hypothesis},
                    {"why", one.why},
                    {"times", one.times},
                    {"record", one.record}});
  }
  return list;
}

Json state_json(const Briefing& briefing) {
  Json state = {{"gate", nullptr}, {"speed", nullptr}, {"edit", nullptr}, {"journal", nullptr}};
  if (briefing.gate) {
    state["gate"] = {{"outcome", briefing.gate->outcome},
                     {"of_these_sources", briefing.gate->of_these_sources},
                     {"record", briefing.gate->record},
                     {"summary", briefing.gate->summary}};
  }
  if (briefing.speed) {
    state["speed"] = {
        {"says", briefing.speed->says}, {"evidence", briefing.speed->evidence}, {"record", briefing.speed->record}};
  }
  if (!briefing.journal.empty()) state["journal"] = briefing.journal;
  if (!briefing.edit.empty()) state["edit"] = briefing.edit;
  state["kept"] = trials_json(briefing.kept);
  state["kept_more"] = briefing.kept.more;
  return state;
}

Json bottleneck_json(const BriefBottleneck& named) {
  Json lines = Json::array();
  for (const BriefLine& line : named.lines)
    lines.push_back({{"where", line.place}, {"text", line.text}, {"says", line.says}});
  const CounterChange& expected = named.expected;
  return {{"rule", named.rule},
          {"says", named.says},
          {"change", named.change},
          {"expected", {{"name", expected.name}, {"from", expected.from}, {"to", expected.to}}},
          {"expected_gain", named.expected_gain},
          {"lines", std::move(lines)},
          {"further", named.further},
          {"workload", named.workload},
          {"record", named.record}};
}

Json moves_json(const Briefing& briefing) {
  Json tunables = Json::array();
  for (const BriefMove& move : briefing.moves.all)
    tunables.push_back({{"name", move.tunable}, {"value", move.value}, {"untried", move.untried}});
  return {{"tunables", std::move(tunables)},
          {"tunables_more", briefing.moves.more},
          {"files", briefing.files.all},
          {"files_more", briefing.files.more}};
}

template <class T>
Json share_json(T used, const std::optional<T>& most) {
  if (!most) return {{"used", used}, {"most", nullptr}, {"left", nullptr}};
  return {{"used", used}, {"most", *most}, {"left", std::max(T{0}, *most - used)}};
}

}  // namespace

std::string briefing_json(const Answer& answer, const Briefing& briefing) {
  const BriefBudget& budget = briefing.budget;
  Json body = {{"project", briefing.project}, {"device", briefing.device}, {"run", briefing.run}};
  body["state"] = state_json(briefing);
  body["bottleneck"] = briefing.bottleneck ? bottleneck_json(*briefing.bottleneck) : Json(nullptr);
  if (!briefing.bottleneck) body["no_bottleneck"] = briefing.no_bottleneck;
  body["moves"] = moves_json(briefing);
  body["budget"] = {{"iterations", share_json(budget.iterations, std::optional(budget.most_iterations))},
                    {"minutes", share_json(budget.minutes, std::optional(budget.most_minutes))},
                    {"dollars", share_json(budget.dollars, budget.most_dollars)},
                    {"dollars_an_hour", budget.dollars_an_hour}};
  body["failed"] = trials_json(briefing.failed);
  body["failed_more"] = briefing.failed.more;
  body["untrusted"] = untrusted;
  return written(answer, body);
}

}  // namespace flashmoe::workflow
