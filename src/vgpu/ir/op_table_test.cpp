#include "vgpu/ir/op_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "vgpu/ir/operand_spec.hpp"

namespace flashmoe::vgpu::ir {
namespace {

Form form_of(std::string_view text) {
  Form form;
  std::stringstream words{std::string(text)};
  std::getline(words, form.opcode, '.');
  for (std::string modifier; std::getline(words, modifier, '.');) form.modifiers.push_back(modifier);
  return form;
}

const std::filesystem::path kHere = std::filesystem::path(__FILE__).parent_path();

TEST(OpTable, EveryFormBelongsToOneRow) {
  std::unordered_map<std::string, const OpRow*> owner;
  std::size_t forms = 0;
  for (const OpRow& row : op_table()) {
    for (const std::string& text : expand(row)) {
      ++forms;
      const auto [entry, is_new] = owner.emplace(text, &row);
      EXPECT_TRUE(is_new) << text << " in " << shown(row) << " and " << shown(*entry->second);
      Form form = form_of(text);
      const OpRow* found = match(form);
      ASSERT_NE(found, nullptr) << text;
      EXPECT_EQ(found, &row) << text << " of " << shown(row) << " was taken for " << shown(*found);
    }
  }
  RecordProperty("forms", static_cast<int>(forms));
  EXPECT_GT(forms, 10000u);
}

TEST(OpTable, OperandsAreWellFormed) {
  for (const OpRow& row : op_table()) {
    Form form = form_of(expand(row).front());
    ASSERT_NE(match(form), nullptr);
    for (const OperandSpec& spec : parse_operand_specs(row.operands)) {
      if (spec.kind == OperandSpec::Kind::typed) {
        EXPECT_NE(spec.type(form), Type::none) << shown(row) << ": " << row.operands;
      }
    }
    EXPECT_TRUE(row.section.starts_with("9.7.")) << shown(row);
  }
}

TEST(OpTable, KnowsWhatAttentionKernelsUse) {
  std::ifstream list(kHere / "testdata" / "attention_forms_sm89.txt");
  ASSERT_TRUE(list);
  int forms = 0;
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with('#')) continue;
    ++forms;
    Form form = form_of(line.substr(0, line.find(' ')));  // how often it was counted stands behind it
    EXPECT_NE(match(form), nullptr) << line;
  }
  EXPECT_EQ(forms, 148);
}

TEST(OpTable, OrderOfModifiersIsFree) {
  for (const std::string_view text :
       {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.x4.m8n8.shared.b16",
        "ldmatrix.sync.aligned.x4.trans.m8n8.shared::cta.b16", "ld.global.nc.L1::no_allocate.L2::128B.v4.u32",
        "ld.nc.global.f32", "atom.add.acq_rel.gpu.global.s32", "atom.global.gpu.relaxed.add.s32"}) {
    Form form = form_of(text);
    EXPECT_NE(match(form), nullptr) << text;
  }
}

TEST(OpTable, OrderOfTypesIsNot) {
  Form to_half = form_of("cvt.rn.f16.f32");
  Form to_single = form_of("cvt.f32.f16");
  Form wrong = form_of("cvt.rn.f32.f16");  // widening does not round
  ASSERT_NE(match(to_half), nullptr);
  ASSERT_NE(match(to_single), nullptr);
  EXPECT_EQ(match(wrong), nullptr);
  EXPECT_EQ(to_half.type(0), Type::f16);
  EXPECT_EQ(to_half.last_type(), Type::f32);
}

TEST(OpTable, TakesFormsApart) {
  Form load = form_of("ld.global.nc.v4.u32");
  ASSERT_NE(match(load), nullptr);
  EXPECT_EQ(load.space, Space::global);
  EXPECT_EQ(load.vector, 4);
  EXPECT_EQ(load.type(), Type::u32);
  Form add = form_of("add.rz.ftz.f32");
  ASSERT_NE(match(add), nullptr);
  EXPECT_EQ(add.rounding, Rounding::rz);
  Form copy = form_of("cp.async.cg.shared.global.L2::128B");
  ASSERT_NE(match(copy), nullptr);
  EXPECT_EQ(copy.space, Space::shared);
}

TEST(OpTable, RejectsWhatIsNoForm) {
  for (const std::string_view text : {"add", "add.f32.f32", "add.rn.rz.f32", "fma.f32", "mul.s32", "ld.v4.v2.u32",
                                      "mov.v2.u32", "shl.u32", "frob.u32", "setp.f32", "bar.sync.sync"}) {
    Form form = form_of(text);
    EXPECT_EQ(match(form), nullptr) << text;
  }
}

TEST(OpTable, NamesTheNearestRow) {
  EXPECT_EQ(nearest_row(form_of("fma.ftz.f32")).opcode, "fma");
  EXPECT_EQ(nearest_row(form_of("fma.ftz.f32")).operands, "d:T a:T b:T c:T");
  EXPECT_EQ(nearest_row(form_of("ldmatrx.sync.aligned.m8n8.x4.shared.b16")).opcode, "ldmatrix");
  EXPECT_NE(nearest_row(form_of("ldmatrix.sync.aligned.m8n8.x4.b8")).operands.find("v4"), std::string_view::npos);
}

TEST(OpTable, UnsupportedExamplesFail) {
  for (const UnsupportedRow& row : unsupported_table()) {
    Form form = form_of(row.example);
    EXPECT_EQ(match(form), nullptr) << row.example;
  }
}

TEST(OpTable, OpcodesNotExecutedHaveNoRow) {
  ASSERT_FALSE(opcodes_not_executed().empty());
  for (const OpRow& row : op_table()) {
    const auto others = opcodes_not_executed();
    EXPECT_EQ(std::find(others.begin(), others.end(), row.opcode), others.end()) << shown(row);
  }
}

// VGPU_REBASE=1 writes the document as the table is now; read the difference before it is committed.
TEST(OpTable, DocumentIsUpToDate) {
  const std::filesystem::path path = kHere / "../../../docs/ptx-forms.md";
  if (std::getenv("VGPU_REBASE") != nullptr) std::ofstream(path) << op_table_markdown();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == op_table_markdown()) << "docs/ptx-forms.md is old: VGPU_REBASE=1 vgpu_op_table_test";
}

}  // namespace
}  // namespace flashmoe::vgpu::ir
