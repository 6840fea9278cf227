#include "workflow/verdict/predicted_gain.hpp"

#include <fmt/format.h>

namespace flashmoe::workflow {

std::string text_of(const PredictedGain& gain) {
  return fmt::format("{:.0f} -> {:.0f} cycles, {:+.1f} % predicted ({:.0f} % are needed): {}", gain.base_cycles,
                     gain.candidate_cycles, 100 * gain.gain(), 100 * gain.needed,
                     gain.is_worth_keeping() ? "worth keeping" : "not worth keeping");
}

}  // namespace flashmoe::workflow
