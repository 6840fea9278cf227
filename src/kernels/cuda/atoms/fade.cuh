// What a warp has gathered fades where a row's largest score has grown. One branch goes around all of it, in one
// statement of assembler: at a branch that it knows of the compiler takes the step apart, and computes addresses in
// each part again. Its exponents are those of `exp2_beside`.
#pragma once

#include "kernels/cuda/atoms/types.cuh"

namespace flashmoe::cuda {

// The two rows of a lane in a row tile.
struct Fade {
  uint32 grown;  // 0: nothing fades; the same for the whole warp
  float old_tops[2];
  float new_levels[2];  // tops times the scale
  float scale_log2;
};

// Two tiles of O, and two sums.
template <class RowFragments>
FMS_DEVICE void fade_two(const Fade& by, RowFragments* o, int m, float* sums) {
  asm("{\n"
      ".reg .pred none; .reg .f32 a, b;\n"
      "setp.eq.u32 none, %10, 0;\n"
      "@none bra DONE;\n"
      "mul.rn.f32 a, %11, %15; sub.rn.f32 a, a, %13; ex2.approx.ftz.f32 a, a;\n"
      "mul.rn.f32 b, %12, %15; sub.rn.f32 b, b, %14; ex2.approx.ftz.f32 b, b;\n"
      "mul.f32 %0, %0, a; mul.f32 %1, %1, a; mul.f32 %2, %2, b; mul.f32 %3, %3, b;\n"
      "mul.f32 %4, %4, a; mul.f32 %5, %5, a; mul.f32 %6, %6, b; mul.f32 %7, %7, b;\n"
      "mul.f32 %8, %8, a; mul.f32 %9, %9, b;\n"
      "DONE:\n}"
      : "+f"(o[0].of[m][0]), "+f"(o[0].of[m][1]), "+f"(o[0].of[m][2]), "+f"(o[0].of[m][3]), "+f"(o[1].of[m][0]),
        "+f"(o[1].of[m][1]), "+f"(o[1].of[m][2]), "+f"(o[1].of[m][3]), "+f"(sums[0]), "+f"(sums[1])
      : "r"(by.grown), "f"(by.old_tops[0]), "f"(by.old_tops[1]), "f"(by.new_levels[0]), "f"(by.new_levels[1]),
        "f"(by.scale_log2));
}

// Eight.
template <class RowFragments>
FMS_DEVICE void fade_eight(const Fade& by, RowFragments* o, int m, float* sums) {
  asm("{\n"
      ".reg .pred none; .reg .f32 a, b;\n"
      "setp.eq.u32 none, %34, 0;\n"
      "@none bra DONE;\n"
      "mul.rn.f32 a, %35, %39; sub.rn.f32 a, a, %37; ex2.approx.ftz.f32 a, a;\n"
      "mul.rn.f32 b, %36, %39; sub.rn.f32 b, b, %38; ex2.approx.ftz.f32 b, b;\n"
      "mul.f32 %0, %0, a; mul.f32 %1, %1, a; mul.f32 %2, %2, b; mul.f32 %3, %3, b;\n"
      "mul.f32 %4, %4, a; mul.f32 %5, %5, a; mul.f32 %6, %6, b; mul.f32 %7, %7, b;\n"
      "mul.f32 %8, %8, a; mul.f32 %9, %9, a; mul.f32 %10, %10, b; mul.f32 %11, %11, b;\n"
      "mul.f32 %12, %12, a; mul.f32 %13, %13, a; mul.f32 %14, %14, b; mul.f32 %15, %15, b;\n"
      "mul.f32 %16, %16, a; mul.f32 %17, %17, a; mul.f32 %18, %18, b; mul.f32 %19, %19, b;\n"
      "mul.f32 %20, %20, a; mul.f32 %21, %21, a; mul.f32 %22, %22, b; mul.f32 %23, %23, b;\n"
      "mul.f32 %24, %24, a; mul.f32 %25, %25, a; mul.f32 %26, %26, b; mul.f32 %27, %27, b;\n"
      "mul.f32 %28, %28, a; mul.f32 %29, %29, a; mul.f32 %30, %30, b; mul.f32 %31, %31, b;\n"
      "mul.f32 %32, %32, a; mul.f32 %33, %33, b;\n"
      "DONE:\n}"
      : "+f"(o[0].of[m][0]), "+f"(o[0].of[m][1]), "+f"(o[0].of[m][2]), "+f"(o[0].of[m][3]), "+f"(o[1].of[m][0]),
        "+f"(o[1].of[m][1]), "+f"(o[1].of[m][2]), "+f"(o[1].of[m][3]), "+f"(o[2].of[m][0]), "+f"(o[2].of[m][1]),
        "+f"(o[2].of[m][2]), "+f"(o[2].of[m][3]), "+f"(o[3].of[m][0]), "+f"(o[3].of[m][1]), "+f"(o[3].of[m][2]),
        "+f"(o[3].of[m][3]), "+f"(o[4].of[m][0]), "+f"(o[4].of[m][1]), "+f"(o[4].of[m][2]), "+f"(o[4].of[m][3]),
        "+f"(o[5].of[m][0]), "+f"(o[5].of[m][1]), "+f"(o[5].of[m][2]), "+f"(o[5].of[m][3]), "+f"(o[6].of[m][0]),
        "+f"(o[6].of[m][1]), "+f"(o[6].of[m][2]), "+f"(o[6].of[m][3]), "+f"(o[7].of[m][0]), "+f"(o[7].of[m][1]),
        "+f"(o[7].of[m][2]), "+f"(o[7].of[m][3]), "+f"(sums[0]), "+f"(sums[1])
      : "r"(by.grown), "f"(by.old_tops[0]), "f"(by.old_tops[1]), "f"(by.new_levels[0]), "f"(by.new_levels[1]),
        "f"(by.scale_log2));
}

}  // namespace flashmoe::cuda
