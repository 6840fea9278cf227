#include "vgpu/ir/readable_name.hpp"

#include <gtest/gtest.h>

namespace flashmoe::vgpu::ir {
namespace {

TEST(ReadableName, IsWhatStandsInTheSource) {
  EXPECT_EQ(readable_name("softmax_kernel"), "softmax_kernel");
  EXPECT_EQ(readable_name("_Z7softmaxPKfPfi"), "softmax");
  EXPECT_EQ(readable_name("_Z7softmaxIfLi128EEvPKT_PS0_i"), "softmax<float, 128>");
  EXPECT_EQ(readable_name("_ZN4mine3rowEPf"), "mine::row");
  EXPECT_EQ(readable_name("_ZN12_GLOBAL__N_13sumEPf"), "sum");
  EXPECT_EQ(readable_name("_ZN8__main__7reverseB2v1B8cw51cXTLE"), "__main__::reverse") << "as numba names it";
  EXPECT_EQ(readable_name("_Znonsense?"), "_Znonsense?");
  EXPECT_EQ(readable_name(""), "");
}

TEST(ReadableName, InText) {
  EXPECT_EQ(readable_names("row.cuh:4 in _Z7row_maxPKfi, inlined at kernel.cu:9"),
            "row.cuh:4 in row_max, inlined at kernel.cu:9");
  EXPECT_EQ(readable_names("x_Z7softmaxPKfPfi"), "x_Z7softmaxPKfPfi") << "a name of its own that holds one";
}

}  // namespace
}  // namespace flashmoe::vgpu::ir
