// Every form of the op table that is no arithmetic has a function, in fast and in observed runs, whatever the width of
// the register that it loads or stores; arithmetic's have a test of their own, by instruction set.
#include "vgpu/exec/handlers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "vgpu/ir/op_table.hpp"

namespace flashmoe::vgpu::exec {
namespace {

ir::Form form_in_table(const std::string& text) {
  ir::Form form;
  std::size_t at = text.find('.');
  form.opcode = text.substr(0, at);
  while (at != std::string::npos) {
    const std::size_t next = text.find('.', at + 1);
    form.modifiers.push_back(text.substr(at + 1, next == std::string::npos ? next : next - at - 1));
    at = next;
  }
  EXPECT_NE(ir::match(form), nullptr) << text;
  return form;
}

// A register of the type's own width, and where the row lets it be wider ("T+"), of every wider one.
std::vector<int> register_widths(const ir::OpRow& row, const ir::Form& form) {
  const int own = std::max(ir::bits_of(form.last_type()), 16);
  std::vector<int> widths{own};
  if (row.operands.find("T+") == std::string_view::npos) return widths;
  for (const int wider : {16, 32, 64})
    if (wider > own) widths.push_back(wider);
  return widths;
}

TEST(Handlers, EveryFormOfMemoryAndControlHasAFunction) {
  std::map<std::string, int> forms;  // by opcode
  for (const ir::OpRow& row : ir::op_table()) {
    for (const std::string& text : ir::expand(row)) {
      ir::Form form = form_in_table(text);
      if (arithmetic_handler(form) != nullptr) continue;
      for (const int bits : register_widths(row, form)) {
        (form.opcode == "st" ? form.source_bits : form.destination_bits) = bits;
        for (const Mode mode : {Mode::fast, Mode::observed})
          EXPECT_NE(handler(form, mode), nullptr) << text << " with a register of " << bits << " bits";
      }
      ++forms[form.opcode];
    }
  }
  for (const char* const opcode : {"ld", "ldu", "st", "atom", "red", "tex", "suld", "sust", "ldmatrix", "stmatrix",
                                   "cp", "mbarrier", "cvta", "prefetch", "bra", "bar", "barrier", "fence", "membar"})
    EXPECT_GT(forms[opcode], 0) << opcode;
}

TEST(Handlers, WhatTheTableDoesNotKnowHasNone) {
  for (const char* const opcode : {"frobnicate", "wgmma", "tld4"}) {
    ir::Form form;
    form.opcode = opcode;
    EXPECT_EQ(handler(form, Mode::fast), nullptr) << opcode;
    EXPECT_EQ(handler(form, Mode::observed), nullptr) << opcode;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
