// Coefficients for 2^f on [0, 1): 2^f ~ 1 + f (c1 + f (c2 + ...)).
// Minimax in relative error with the constant term held at 1, so that 2^0 is exact and a row with one key returns
// its value unchanged. The interval is [0, 1) and not [-1/2, 1/2] because vscalefps multiplies by 2^floor(x): the
// reduced argument comes from one vreduceps and no separate rounding is needed.
#pragma once

namespace flashmoe::cpu {

template <int Degree>
struct Exp2Poly;

template <>
struct Exp2Poly<3> {  // 8.6e-5: below half an ulp of bf16 (2e-3), for weights that are rounded to bf16
  static constexpr float c[3] = {6.951163932e-01F, 2.276462555e-01F, 7.706622231e-02F};
};

template <>
struct Exp2Poly<4> {  // 2.9e-6: for weights kept as bf16 high + low (16 bits)
  static constexpr float c[4] = {6.930448246e-01F, 2.412807050e-01F, 5.224132303e-02F, 1.342736330e-02F};
};

template <>
struct Exp2Poly<6> {  // 1.9e-8: fp32 rounding dominates
  static constexpr float c[6] = {6.931471802e-01F, 2.402265812e-01F, 5.550168839e-02F,
                                 9.635761439e-03F, 1.288124468e-03F, 2.006643198e-04F};
};

}  // namespace flashmoe::cpu
