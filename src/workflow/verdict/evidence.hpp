// What a verdict or a figure stands on. Figures of different evidence are never added up.
#pragma once

#include <optional>
#include <string>

namespace flashmoe::workflow {

// Names of a kind, as records and --json write them.
inline constexpr const char* measured_evidence = "measured";
inline constexpr const char* virtual_evidence = "virtual";
inline constexpr const char* predicted_evidence = "predicted";
inline constexpr const char* rehearsal_evidence = "rehearsal";  // the virtual GPU stood in for a card: no figure of one
inline constexpr const char* no_evidence = "none";              // looked at, not judged

struct Evidence {
  std::string kind{};
  std::string where{};            // the machine that was measured, or the GPU that was simulated or predicted
  std::optional<double> error{};  // of a prediction, relative
  std::string confinement{};      // what kept a kernel off everything but its tensors; empty: not recorded
  bool operator==(const Evidence&) const = default;
};

// What runs on a device of this name shows: "virtual:l4" is simulated, "rehearsal:cuda:0" rehearsed, all others are
// measured on `machine`.
[[nodiscard]] Evidence evidence_on(const std::string& device, const std::string& machine);
// "measured (cpu: Xeon, host)", "virtual (l4)", "predicted (l4, error 12 %)"
[[nodiscard]] std::string text_of(const Evidence& evidence);

}  // namespace flashmoe::workflow
