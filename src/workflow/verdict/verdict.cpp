#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

int exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::holds:
      return 0;
    case Outcome::inconclusive:
      return 3;
    case Outcome::fails:
    case Outcome::could_not_run:
      return 1;
  }
  return 1;
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::holds:
      return "holds";
    case Outcome::fails:
      return "fails";
    case Outcome::inconclusive:
      return "inconclusive";
    case Outcome::could_not_run:
      return "could not run";
  }
  return "unknown";
}

Json to_json(const GateResult& result) {
  constexpr const char* severities[] = {"ok", "warning", "error"};
  Json findings = Json::array();
  for (const Finding& f : result.findings) {
    Json one = {{"severity", severities[static_cast<int>(f.severity)]}, {"group", f.group}, {"what", f.what}};
    if (!f.where.empty()) one["where"] = f.where;
    if (!f.fix.empty()) one["fix"] = f.fix;
    findings.push_back(std::move(one));
  }
  return {{"gate", result.gate},       {"outcome", name_of(result.outcome)}, {"summary", result.summary},
          {"seconds", result.seconds}, {"findings", std::move(findings)},    {"data", result.data}};
}

}  // namespace flashmoe::workflow
