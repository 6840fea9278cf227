// --json of `cudadent patterns`.
#include "workflow/advise/patterns.hpp"

#include "support/json.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow {

std::string patterns_json(const Answer& answer, const std::vector<PatternTrial>& trials,
                          const std::vector<PatternCount>& counts, const std::vector<Practice>& practices) {
  Json learned = Json::array();
  for (const PatternCount& one : counts) {
    learned.push_back({{"evidence", one.evidence},
                       {"rule", one.rule},
                       {"move", one.move.empty() ? Json(nullptr) : Json(one.move)},
                       {"trials", one.trials},
                       {"kept", one.kept},
                       {"lasted", one.lasted},
                       {"hit_rate", {{"rate", one.hits.rate}, {"lower", one.hits.lower}, {"upper", one.hits.upper}}},
                       {"mean_gain", one.kept > 0 ? Json(one.mean_gain) : Json(nullptr)}});
  }
  Json shipped = Json::array();
  for (const Practice& one : practices) {
    shipped.push_back({{"name", one.name},
                       {"says", one.says},
                       {"moves", one.moves},
                       {"rule", one.rule.empty() ? Json(nullptr) : Json(one.rule)}});
  }
  return written(answer, {{"trials", trials.size()}, {"learned", std::move(learned)}, {"shipped", std::move(shipped)}});
}

}  // namespace flashmoe::workflow
