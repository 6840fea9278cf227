#include "kernels/cuda/jit/portable_ptx.hpp"

#include <gtest/gtest.h>

namespace flashmoe::cuda {
namespace {

TEST(PortablePtx, ANewerVersionBecomesTheOneOfCuda12) {
  EXPECT_EQ(portable_ptx("//\n.version 9.0\n.target sm_80\n"), "//\n.version 8.0\n.target sm_80\n");
  EXPECT_EQ(portable_ptx(".version 8.3\n"), ".version 8.0\n");
  EXPECT_EQ(portable_ptx(".version 10.12\n"), ".version 8.0\n");
}

TEST(PortablePtx, AnOlderVersionStays) {
  EXPECT_EQ(portable_ptx(".version 8.0\n"), ".version 8.0\n");
  EXPECT_EQ(portable_ptx(".version 7.4\n"), ".version 7.4\n");
}

TEST(PortablePtx, HintsOfNewerVersionsGoAndOthersStay) {
  EXPECT_EQ(portable_ptx("\t.pragma \"used_bytes_mask 240\";\n\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"),
            "\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n");
  EXPECT_EQ(portable_ptx("\t.pragma \"nounroll\";\n"), "\t.pragma \"nounroll\";\n");
}

TEST(PortablePtx, TextsWithoutAnEndOfLineOrAVersion) {
  EXPECT_EQ(portable_ptx(""), "");
  EXPECT_EQ(portable_ptx("\n\n"), "\n\n");
  EXPECT_EQ(portable_ptx("ret;"), "ret;");
  EXPECT_EQ(portable_ptx(".version "), ".version ");
  EXPECT_EQ(portable_ptx(".version 9"), ".version 9");
  EXPECT_EQ(portable_ptx("// .version 9.0\n"), "// .version 9.0\n");
}

}  // namespace
}  // namespace flashmoe::cuda
