// The text of nvdisasm, line by line, and how errors read. What it prints for real cubins:
// tests/predict/real_sass_test.py.
#include "predict/sass.hpp"

#include <gtest/gtest.h>

#include <string>

namespace flashmoe::predict {
namespace {

const std::string kHead =
    "\t.target\tsm_89\n\n\t.section\t.text.kernel,\"ax\",@progbits\n\t.sectioninfo\t@\"SHI_REGISTERS=18\"\nkernel:\n."
    "text.kernel:\n";

std::string line(unsigned address, const std::string& code, const std::string& high = "0x000fe400078e00ff") {
  char place[16];
  std::snprintf(place, sizeof(place), "%04x", address);
  return "        /*" + std::string(place) + "*/                   " + code + " ;        /* 0x00000a00ff017624 */\n" +
         "                                                            /* " + high + " */\n";
}

SassKernel only(const std::string& text) {
  auto kernels = parse_sass(text);
  if (!kernels || kernels->size() != 1) {
    ADD_FAILURE() << (kernels ? std::to_string(kernels->size()) + " kernels" : kernels.error().to_string());
    return {};
  }
  return kernels->front();
}

TEST(Sass, InstructionWithGuardAndOperands) {
  const SassKernel kernel = only(kHead + line(0, "@!P0 IMAD.WIDE.U32 R2, R0, 0x4, c[0x0][0x160]"));
  EXPECT_EQ(kernel.name, "kernel");
  EXPECT_EQ(kernel.architecture, "sm_89");
  ASSERT_EQ(kernel.instructions.size(), 1U);
  const SassInstruction& one = kernel.instructions[0];
  EXPECT_EQ(one.guard, "@!P0");
  EXPECT_EQ(one.opcode, "IMAD.WIDE.U32");
  EXPECT_EQ(one.base(), "IMAD");
  EXPECT_TRUE(one.has("WIDE"));
  EXPECT_TRUE(one.has("U32"));
  EXPECT_FALSE(one.has("U3"));
  EXPECT_EQ(one.operands, (std::vector<std::string>{"R2", "R0", "0x4", "c[0x0][0x160]"}));
}

TEST(Sass, CommasInBracesDoNotSeparate) {
  const SassKernel kernel = only(kHead + line(0, "DEPBAR.LE SB0, 0x1, {2,1}"));
  EXPECT_EQ(kernel.instructions.at(0).operands, (std::vector<std::string>{"SB0", "0x1", "{2,1}"}));
}

// Bits from the top: reuse 0101, wait mask 100010, read barrier 2, write barrier 5, no yield, stall 11.
TEST(Sass, ControlBits) {
  const std::uint64_t word =
      (5ULL << 58) | (0x22ULL << 52) | (2ULL << 49) | (5ULL << 46) | (1ULL << 45) | (11ULL << 41);
  char text[32];
  std::snprintf(text, sizeof(text), "0x%016llx", static_cast<unsigned long long>(word));
  const Control control = only(kHead + line(0, "NOP", text)).instructions.at(0).control;
  EXPECT_EQ(
      control,
      (Control{.stall = 11, .yield = false, .write_barrier = 5, .read_barrier = 2, .wait_mask = 0x22, .reuse = 5}));
  EXPECT_TRUE(only(kHead + line(0, "NOP", "0x000fc00000000000")).instructions.at(0).control.yield);
}

TEST(Sass, BranchesFindTheirLabels) {
  const SassKernel kernel =
      only(kHead + ".L_x_0:\n" + line(0, "@P1 BRA `(.L_x_1)") + line(16, "BRA `(.L_x_0)") + ".L_x_1:\n" +
           line(32, "CALL.REL.NOINC `(elsewhere)") + line(48, "EXIT") + ".L_x_2:\n");
  EXPECT_EQ(kernel.instructions.at(0).target, 2U);
  EXPECT_EQ(kernel.instructions.at(1).target, 0U);
  EXPECT_FALSE(kernel.instructions.at(2).target);
  EXPECT_FALSE(kernel.instructions.at(3).target);
}

// Of the lines before an instruction the first is its own, the others those of the calls it was inlined through.
TEST(Sass, LinesOfPtx) {
  const SassKernel kernel =
      only(kHead + "\t//## File \".nv_debug_ptx_txt\", line 21 inlined at \".nv_debug_ptx_txt\", line 7\n" +
           "\t//## File \".nv_debug_ptx_txt\", line 7\n" + line(0, "NOP") + line(16, "NOP") +
           "\t//## File \".nv_debug_ptx_txt\", line 40\n" + line(32, "EXIT"));
  EXPECT_EQ(kernel.instructions.at(0).ptx_line, 21U);
  EXPECT_EQ(kernel.instructions.at(1).ptx_line, 21U);
  EXPECT_EQ(kernel.instructions.at(2).ptx_line, 40U);
}

TEST(Sass, OlderCubinsNameTheirArchitectureInFlags) {
  std::string text = kHead + line(0, "EXIT");
  text.replace(0, text.find("\n\n"),
               "\t.headerflags\t@\"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM86 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM86)\"");
  EXPECT_EQ(only(text).architecture, "sm_86");
}

TEST(Sass, SectionsAreKernels) {
  std::string second = kHead;
  second.replace(0, second.find("\t.section"), "");
  second.replace(second.find("kernel"), 6, "other");
  const auto kernels = parse_sass(kHead + line(0, "EXIT") + second + line(0, "NOP") + line(16, "EXIT"));
  ASSERT_TRUE(kernels) << kernels.error().to_string();
  ASSERT_EQ(kernels->size(), 2U);
  EXPECT_EQ((*kernels)[0].instructions.size(), 1U);
  EXPECT_EQ((*kernels)[1].name, "other");
  EXPECT_EQ((*kernels)[1].instructions.size(), 2U);
}

struct Wrong {
  std::string text, message;
  int line;
};
TEST(Sass, ErrorsSayWhere) {
  const int first = 7;  // line of the first instruction
  const Wrong cases[] = {
      {"", "no code section", 1},
      {"\t.section\t.text.k,\"ax\"\n", "no .target before the code", 1},
      {kHead + "        /*0000*/                   EXIT ;\n", "an instruction without its hexadecimal word", first},
      {kHead + "        /*0000*/                   EXIT ;   /* 0x1 */\n\n",
       "the second half of the instruction above is missing", first + 1},
      {kHead + "        /*0000*/                   EXIT ;   /* 0x1 */\n",
       "the second half of the instruction above is missing", first},
      {kHead + line(16, "EXIT"), "expected the instruction at byte 0 of kernel", first},
      {kHead + line(0, "NOP") + line(8, "EXIT"), "expected the instruction at byte 16 of kernel", first + 2},
      {kHead + "        /*0000*/                   EXIT\n", "an instruction without its semicolon", first},
      {kHead + line(0, "@P0 "), "an instruction without its opcode", first},
      {kHead + "\t//## File \"x\", line\n", "a source line without its number", first},
  };
  for (const Wrong& wrong : cases) {
    const auto kernels = parse_sass(wrong.text, "file");
    ASSERT_FALSE(kernels) << wrong.message;
    EXPECT_EQ(kernels.error().message, wrong.message);
    EXPECT_EQ(kernels.error().line, wrong.line) << wrong.message;
    EXPECT_EQ(kernels.error().file, "file");
    EXPECT_GE(kernels.error().column, 1);
  }
}

}  // namespace
}  // namespace flashmoe::predict
