#include "vgpu/ir/lower.hpp"

#include <gtest/gtest.h>

#include "vgpu/ir/test_kernel.hpp"

namespace flashmoe::vgpu::ir {
namespace {

std::string error_of(const std::string& text) {
  const auto module = ptx::parse(text, "test.ptx");
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return {};
  const auto verified = verify(*module);
  const auto kernel = lower(*module, "k", test_surroundings());
  EXPECT_FALSE(kernel);
  EXPECT_FALSE(verified);
  return verified ? "" : verified.error().to_string();
}

// Of a module that loads: why its entry `k` cannot run.
std::string unsupported_in(const std::string& text, std::string_view entry = "k") {
  const auto module = ptx::parse(text, "test.ptx");
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return {};
  const auto verified = verify(*module);
  EXPECT_TRUE(verified) << (verified ? "" : verified.error().to_string());
  if (!verified) return {};
  const auto found = verified->find(entry);
  EXPECT_EQ(lower(*module, entry, test_surroundings()) ? 1 : 0, found == verified->end() ? 1 : 0);
  return found == verified->end() ? "" : found->second.to_string();
}

struct Mistake {
  std::string_view body;
  std::vector<std::string_view> told;
};

TEST(Verify, EveryMistakeIsToldWhereAndWhat) {
  const Mistake mistakes[] = {
      {"frob.u32 %r1, %r2;", {"test.ptx:7:", "unknown instruction form frob.u32", "frob.u32 %r1, %r2;"}},
      {"add.s32 %r1, %r2;", {"operand 3", "a value of .s32 (32 bits) wanted, nothing found"}},
      {"add.s32 %r1, %r2, %r3, %r3;", {"operand 4", "nothing more wanted, %r3 (32 bits) found"}},
      {"add.s32 %r1, %r2, %rd1;", {"operand 3", "%rd1 (64 bits) found"}},
      {"add.s32 %r1, %r2, %x9;", {"%x9, which is declared nowhere"}},
      {"add.s32 5, %r2, %r2;", {"operand 1", "a register of .s32"}},
      {"@%r1 bra A; A:", {"guard %r1 is no predicate register"}},
      {"bra NOWHERE;", {"a label of this function wanted, NOWHERE, which is declared nowhere"}},
      {"ld.global.v4.u32 {%r1, %r2}, [%rd1];", {"{} of 4 elements of .u32"}},
      {"ld.shared.u32 %r1, [table];", {"table lies in .global, the instruction accesses .shared memory"}},
      {"ld.global.u32 %r1, [%f9];", {"%f9 is declared nowhere"}},
      {"selp.b32 %r1, %r2, %r3, %r1;", {"a predicate wanted, %r1 (32 bits) found"}},
      {"add.s32 %r1, %p1, %r2;", {"the predicate %p1 found"}},
      {"cp.async.cg.shared.global [%r1], [%rd1], 8;", {"cannot copy 8 bytes"}},
      {"call k, (%rd1, %r1);", {"k is an entry"}},
      {".local .b8 huge[99999999999999];", {"larger than any device's .local memory"}},
      {"call absent;", {"function absent is declared but defined nowhere in"}},
      {"call nowhere;", {"nowhere is neither a function nor a 64-bit register"}},
      {"add.s32 %r1, %r2, 1.5;", {"1.5 cannot be a .s32"}},
      {"A: bra A; A: ret;", {"label A stands twice"}},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string text =
        in_kernel(".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<4>;\n" + std::string(mistake.body),
                  ".global .align 4 .b8 table[64]; .extern .func absent;");
    const std::string error = error_of(text);
    for (const std::string_view told : mistake.told) EXPECT_NE(error.find(told), std::string::npos) << error;
  }
}

// What PTX has and the virtual GPU has not costs the kernels that use it, not the module.
TEST(Verify, UnsupportedFormsBelongToTheirKernels) {
  const std::string others =
      ".func deep() { .reg .b32 %r<4>; vadd.s32.s32.s32 %r1, %r2, %r3; ret; }\n"
      ".entry calls() { call deep; ret; }\n.entry plain() { ret; }\n.extern .func __cudaCDP2Free;\n";
  for (const auto& [body, told] : {std::pair{"fma.ftz.f32 %f1, %f1, %f1, %f1;", "unknown instruction form fma.ftz.f32"},
                                   {"tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f3}, [table, {%r1}];", "tex.1d.v4.f32.s32"},
                                   {"call __cudaCDP2Free;", "it launches kernels from the device, which is not"},
                                   {"wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned"},
                                   {".reg .b128 %q; mov.b128 %q, {%rd1, %rd2};", "only scalars of up to 64 bits"}}) {
    const std::string text =
        in_kernel(std::string(".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>;\n") + body, others);
    const std::string error = unsupported_in(text);
    EXPECT_NE(error.find(told), std::string::npos) << error;
    EXPECT_NE(error.find("test.ptx:11:"), std::string::npos) << error;
    EXPECT_NE(unsupported_in(text, "calls").find("vadd"), std::string::npos);
    EXPECT_EQ(unsupported_in(text, "plain"), "");
  }
}

// exec reads the arguments and writes the result of these by their true sizes.
TEST(Verify, BuiltInsMustBeDeclaredAsTheyAre) {
  const std::string_view declarations[] = {
      "vprintf",
      "(.param .b32 r) vprintf(.param .b64 f)",
      "(.param .b64 r) vprintf(.param .b64 f, .param .b64 a)",
      "__assertfail(.param .b64 m)",
      "__assertfail(.param .b64 m, .param .b64 f, .param .b64 l, .param .b64 n, .param .b64 c)",
      "(.param .b8 r) malloc(.param .b64 n)",
      "(.param .b64 r) malloc",
      "malloc(.param .b64 n)",
      "(.param .b64 r) malloc(.param .b32 n)",
      "free",
      "(.param .b32 r) free(.param .b64 p)",
      "free(.param .b8 p[4])",
  };
  for (const std::string_view declaration : declarations) {
    const std::string name(declaration.find("printf") != declaration.npos   ? "vprintf"
                           : declaration.find("assert") != declaration.npos ? "__assertfail"
                           : declaration.find("malloc") != declaration.npos ? "malloc"
                                                                            : "free");
    const std::string error = error_of(
        in_kernel(".reg .b64 %rd<4>; mov.u64 %rd1, " + name + "; p: .callprototype _ (); call %rd1, (), p; ret;",
                  ".extern .func " + std::string(declaration) + ";\n"));
    EXPECT_NE(error.find("test.ptx:4:"), std::string::npos) << declaration << ": " << error;
    EXPECT_NE(error.find("the device's " + name + " is "), std::string::npos) << declaration << ": " << error;
  }
}

// Sizes are added up before anybody believes them: a sum that wrapped around would be a small area with large offsets.
TEST(Verify, AreasThatNoThreadHasAreTold) {
  std::string parameters;
  for (int i = 0; i < 70; ++i) parameters += (i == 0 ? "" : ", ") + (".param .b8 a" + std::to_string(i) + "[67000000]");
  const std::string calls_f = ".reg .b64 %rd<4>; mov.u64 %rd1, f; p: .callprototype _ (); call %rd1, (), p; ret;";
  for (const std::string& text :
       {in_kernel(".local .b8 room[600000]; ret;"), in_kernel("{ .param .b8 room[600000]; } ret;"),
        in_kernel(calls_f, ".func f(" + parameters + ") { ret; }\n"),
        in_kernel(calls_f, ".func f() { .local .b8 x[300000]; .local .b8 y[300000]; ret; }\n")}) {
    const std::string error = error_of(text);
    EXPECT_NE(error.find("bytes of local memory and parameters, a thread has at most 524288"), std::string::npos)
        << error;
  }
  const std::string error = error_of(".version 9.0\n.target sm_89\n.entry k(" + parameters + ") { ret; }\n");
  EXPECT_NE(error.find("bytes of parameters, an entry has at most 32764"), std::string::npos) << error;
}

TEST(Verify, FormsWithoutAFunctionAreTold) {
  const auto module = ptx::parse(in_kernel("membar.gl; ret;"), "test.ptx");
  ASSERT_TRUE(module);
  EXPECT_TRUE(verify(*module));
  Surroundings surroundings = test_surroundings();
  surroundings.handler = [](const Form& form) { return form.opcode == "membar" ? nullptr : &nothing; };
  const auto kernel = lower(*module, "k", surroundings);
  ASSERT_FALSE(kernel);
  EXPECT_NE(kernel.error().to_string().find("no function for membar.gl"), std::string::npos);
  EXPECT_EQ(kernel.error().line, 6);
}

}  // namespace
}  // namespace flashmoe::vgpu::ir
