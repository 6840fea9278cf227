// How large a predicted difference between two versions of a kernel must be before it is acted on.
#pragma once

namespace flashmoe::predict {

// A judgement until a card has spoken: published points are of different kernels and shapes, none is "the same kernel,
// one change". Over those the sign of a difference is right in nine of ten cases from here on (the table "sign right,
// by predicted gap" in docs/predict-validation.md).
inline constexpr double least_believed_gain = 0.10;

}  // namespace flashmoe::predict
