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

struct Mistake {
  std::string_view body;
  std::vector<std::string_view> told;
};

TEST(Verify, EveryMistakeIsToldWhereAndWhat) {
  const Mistake mistakes[] = {
      {"frob.u32 %r1, %r2;", {"test.ptx:7:", "unknown instruction form frob.u32", "frob.u32 %r1, %r2;"}},
      {"fma.ftz.f32 %f1, %f1, %f1, %f1;", {"unknown instruction form fma.ftz.f32", "nearest", "fma{.rn"}},
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
      {"call nowhere;", {"nowhere is neither a function nor a 64-bit register"}},
      {"add.s32 %r1, %r2, 1.5;", {"1.5 cannot be a .s32"}},
      {"A: bra A; A: ret;", {"label A stands twice"}},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string text =
        in_kernel(".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<4>;\n" + std::string(mistake.body),
                  ".global .align 4 .b8 table[64];");
    const std::string error = error_of(text);
    for (const std::string_view told : mistake.told) EXPECT_NE(error.find(told), std::string::npos) << error;
  }
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
