#include "workflow/verdict/evidence.hpp"

#include <cmath>
#include <string_view>

namespace flashmoe::workflow {

Evidence evidence_on(const std::string& device, const std::string& machine) {
  constexpr std::string_view simulated = "virtual:";
  if (device.starts_with(simulated)) return {.kind = virtual_evidence, .where = device.substr(simulated.size())};
  if (device.starts_with("rehearsal:")) return {.kind = rehearsal_evidence, .where = device + ", never run on a card"};
  return {.kind = measured_evidence, .where = machine.empty() ? device : device + ": " + machine};
}

std::string text_of(const Evidence& evidence) {
  std::string text = evidence.kind + " (" + evidence.where;
  if (evidence.kind == predicted_evidence) {
    text += evidence.error ? ", error " + std::to_string(std::lround(100 * *evidence.error)) + " %" : ", error unknown";
  }
  return text + ")";
}

}  // namespace flashmoe::workflow
