// cudadent predict --json.
#pragma once

#include <string>

#include "workflow/output/answer.hpp"
#include "workflow/predict/prediction.hpp"

namespace flashmoe::workflow {

// With `lines` the pressure on every line of the sources; never in the short form.
[[nodiscard]] std::string prediction_json(const Answer& answer, const PredictionRun& run, bool lines);

}  // namespace flashmoe::workflow
