// Calls that do not fit their callee, and the functions that exec runs itself.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/run_ptx.hpp"

namespace flashmoe::vgpu::exec {
namespace {

std::string module_of(std::string_view functions, std::string_view body) {
  return std::string(functions) + ".visible .entry k(.param .u64 p0, .param .u64 p1) {" + prologue() +
         std::string(body) + " ret; }";
}

struct WrongCall {
  std::string_view callee;  // the declaration of f, without its body
  std::string_view variables, call, prototype;
  std::string_view told;
};

// A caller trusts its prototype and a callee its declaration; where they differ the parameter area of one of them would
// be left, which lies in memory of the host.
TEST(Calls, APrototypeThatDoesNotFitTheFunctionIsAFault) {
  const WrongCall calls[] = {
      {"f(.param .b32 x)", ".param .b8 big[200000];", "call %rd10, (big), proto;", "_ (.param .b8 _[200000])",
       "() f(4)"},
      {"(.param .b32 r) f(.param .b32 x)", ".param .b8 big[200000]; .param .b32 a;", "call (big), %rd10, (a), proto;",
       "(.param .b8 _[200000]) _ (.param .b32 _)", "(4) f(4)"},
      {"f()", ".param .align 8 .b8 big[16384];", "call (big), %rd10, (), proto;", "(.param .align 8 .b8 _[16384]) _ ()",
       "() f()"},
      {"(.param .b64 r) f(.param .b64 x)", "", "call %rd10, (), proto;", "_ ()", "(8) f(8)"},
      {"f(.param .b32 x, .param .b32 y)", ".param .b32 a; .param .b64 b;", "call %rd10, (a, b), proto;",
       "_ (.param .b32 _, .param .b64 _)", "() f(4, 4)"},
      {"f(.param .align 4 .b8 x[4], .param .align 16 .b8 y[16])", ".param .b32 a; .param .align 4 .b8 b[16];",
       "call %rd10, (a, b), proto;", "_ (.param .b32 _, .param .align 4 .b8 _[16])", "() f(4, 16 at 16)"},
  };
  for (const WrongCall& one : calls) {
    for (const Mode mode : {Mode::fast, Mode::observed}) {
      PtxRunner runner(module_of(".func " + std::string(one.callee) + " { ret; }\n",
                                 "mov.u64 %rd10, f; { " + std::string(one.variables) + " proto: .callprototype " +
                                     std::string(one.prototype) + ";\n" + std::string(one.call) + " }"),
                       mode);
      Observer observer;
      runner.launch.observer = mode == Mode::observed ? &observer : nullptr;
      const Outcome outcome = runner.run(1, 32);
      EXPECT_EQ(outcome.fault.kind, Fault::Kind::illegal_instruction) << one.prototype;
      EXPECT_NE(outcome.fault.message.find(one.told), std::string::npos) << outcome.fault.message;
      EXPECT_NE(outcome.fault.message.find("`call"), std::string::npos) << outcome.fault.message;
    }
  }
}

TEST(Calls, APrototypeMayNameOtherTypesOfTheSameSize) {
  PtxRunner runner(module_of(R"(
.func (.param .f32 r) f(.param .f32 x, .param .align 8 .b8 y[8]) {
  .reg .f32 %f<4>; ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y+4]; add.f32 %f3, %f1, %f2; st.param.f32 [r], %f3; ret; }
)",
                             R"(mov.u64 %rd10, f; mov.b64 %rd11, {%r1, %r1};
  { .param .b32 a; .param .b64 b; .param .b32 c; st.param.b32 [a], 0f3F800000; mov.b64 %rd11, 0x4000000000000000;
    st.param.b64 [b], %rd11;
    proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
    call (c), %rd10, (a, b), proto; ld.param.b32 %r10, [c]; }
  st.global.u32 [%rd2], %r10;)"));
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  EXPECT_EQ(runner.at<float>(0), 3.0F);
}

TEST(Calls, BuiltInsThroughPointersAreHeldToTheirDeclaration) {
  PtxRunner runner(module_of(".extern .func (.param .b64 r) malloc(.param .b64 bytes);\n",
                             R"(mov.u64 %rd10, malloc;
  { .param .b64 n; .param .b8 pad[7]; .param .b8 r; st.param.b64 [n], 4096;
    proto: .callprototype (.param .b8 _) _ (.param .b64 _);
    call (r), %rd10, (n), proto; })"));
  const Outcome outcome = runner.run(1, 32);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::illegal_instruction);
  EXPECT_NE(outcome.fault.message.find("(8) malloc(8)"), std::string::npos) << outcome.fault.message;
}

TEST(Calls, FreeTakesWhatMallocGaveAndNothingElse) {
  PtxRunner runner(module_of(".extern .func free(.param .b64 pointer);\n",
                             "{ .param .b64 a; st.param.b64 [a], %rd1; call free, (a); }"));
  const Outcome outcome = runner.run(1, 1);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::illegal_address);
  EXPECT_NE(outcome.fault.message.find("malloc did not return it"), std::string::npos) << outcome.fault.message;
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
