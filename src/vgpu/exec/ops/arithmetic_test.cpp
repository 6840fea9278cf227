// Every arithmetic form of the op table has a function, in every variant; what the table does not know has none.
#include "vgpu/exec/ops/arithmetic.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/ops/harness_test.hpp"
#include "vgpu/ir/op_table.hpp"

namespace flashmoe::vgpu::exec::ops {
namespace {

// Opcodes of the other groups: memory_handler and control_handler answer for them.
const std::set<std::string_view> not_arithmetic = {
    "ld",           "ldu",           "st",       "atom",      "red",
    "cp",           "cvta",          "isspacep", "ldmatrix",  "stmatrix",
    "prefetch",     "prefetchu",     "bra",      "brx",       "call",
    "ret",          "exit",          "trap",     "brkpt",     "bar",
    "barrier",      "membar",        "fence",    "vgpu",      "nanosleep",
    "discard",      "applypriority", "mbarrier", "pmevent",   "griddepcontrol",
    "createpolicy", "setmaxnreg",    "alloca",   "stacksave", "stackrestore",
    "getctarank",   "mapa",          "multimem", "st_bulk",   "tex",
    "suld",         "sust",
};

ir::Form form_in_table(const std::string& text) {
  ir::Form form = form_of(text);
  EXPECT_NE(ir::match(form), nullptr) << text;
  return form;
}

TEST(ArithmeticHandlers, EveryFormOfTheTableHasAFunction) {
  int forms = 0;
  for (const ir::OpRow& row : ir::op_table()) {
    if (not_arithmetic.contains(row.opcode)) continue;
    for (const std::string& text : ir::expand(row)) {
      const ir::Form form = form_in_table(text);
      for (const Isa isa : isas_of_host()) EXPECT_NE(arithmetic_handler_for(form, isa), nullptr) << text;
      ++forms;
    }
  }
  EXPECT_GT(forms, 1000);
  RecordProperty("forms", forms);
}

TEST(ArithmeticHandlers, OthersHaveNone) {
  for (const char* text :
       {"ld.global.u32", "bra.uni", "add.foo.u32", "frobnicate.u32", "mma.sync.aligned.m8n8k4.f32"}) {
    EXPECT_EQ(arithmetic_handler_for(form_of(text), Isa::baseline), nullptr) << text;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops
