#include "vgpu/observe/sanitizer/poison_rules.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "vgpu/observe/sanitizer/global_shadow.hpp"

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint32_t all_bits = 0xffffffffu;

TEST(PoisonRules, ADefinedZeroDecidesAnAnd) {
  EXPECT_EQ(poison_and(0, 0xff, 0x0f, 0), 0x0fu);
  EXPECT_EQ(poison_and(0, 0xff, 0, 0), 0u);
  EXPECT_EQ(poison_and(0, 0xff, 0, 0xf0), 0xf0u);
}

TEST(PoisonRules, ADefinedOneDecidesAnOr) {
  EXPECT_EQ(poison_or(0, 0xff, 0x0f, 0), 0xf0u);
  EXPECT_EQ(poison_or(0, 0xff, 0xff, 0), 0u);
}

TEST(PoisonRules, AnUndefinedSignIsCopied) {
  EXPECT_EQ(poison_extended(0x80, 8, true), ~std::uint64_t{0x7f});
  EXPECT_EQ(poison_extended(0x80, 8, false), 0x80u);
  EXPECT_EQ(poison_extended(0x7f, 8, true), 0x7fu);
}

TEST(PoisonRules, PermutedBytesTakeTheirBits) {
  EXPECT_EQ(poison_permuted(0x000000ff, 0, 0x3210), 0x000000ffu);
  EXPECT_EQ(poison_permuted(0x000000ff, 0, 0x0123), 0xff000000u);
  EXPECT_EQ(poison_permuted(0, 0xff, 0x4444), 0xffffffffu);
  EXPECT_EQ(poison_permuted(0x80, 0, 0x8888), 0xffffffffu);  // the sign of byte 0, four times
  EXPECT_EQ(poison_permuted(0x7f, 0, 0x8888), 0u);
}

TEST(PoisonRules, HalvesOfAConvertedPairDoNotMix) {
  EXPECT_EQ(poison_pair(0, 0, 16), 0u);
  EXPECT_EQ(poison_pair(1, 0, 16), 0x0000ffffu);
  EXPECT_EQ(poison_pair(0, 1, 16), 0xffff0000u);
  EXPECT_EQ(poison_pair(0, all_bits, 8), 0xff00u);
}

TEST(RegisterPoison, BitsOfALane) {
  ir::Function function;
  function.slots = 4;
  function.constants.push_back({.slot = 2, .bits = 1, .wide = true});
  RegisterPoison poison;
  poison.begin(function);
  EXPECT_EQ(poison.lanes(0), all_bits);
  EXPECT_EQ(poison.lanes(2), 0u);
  EXPECT_EQ(poison.lanes(3), 0u);
  poison.define(0, all_bits);
  poison.set(0, 5, 0xf0, 9);
  EXPECT_EQ(poison.lanes(0), 1u << 5);
  EXPECT_EQ(poison.bits(0, 5), 0xf0u);
  EXPECT_EQ(poison.bits(0, 4), 0u);
  EXPECT_EQ(poison.origin(0), 9u);
  poison.poison(0, 1u << 5, 10);
  EXPECT_EQ(poison.bits(0, 5), all_bits);
}

// A warp with registers 0.. in one frame, enough for a rule to work on.
struct Machine {
  explicit Machine(std::uint32_t slots) : storage(std::size_t{slots} * 32), predicates(4) {
    function.slots = slots;
    function.predicates = 4;
    poison.begin(function);
    for (std::uint32_t slot = 0; slot < slots; ++slot) poison.define(slot, all_bits);
    for (std::uint32_t index = 0; index < 4; ++index) poison.define_predicate(index, all_bits);
    warp.registers = storage.data();
    warp.predicates = predicates.data();
    warp.kernel = &kernel;
  }
  PoisonStep step() {
    return {
        .warp = warp, .inst = inst, .info = info, .poison = poison, .lanes = all_bits, .dirty = all_bits, .origin = 1};
  }

  std::vector<std::uint32_t> storage, predicates;
  ir::Function function{};
  ir::Kernel kernel{};
  ir::Inst inst{};
  ir::InstInfo info{};
  exec::Warp warp{};
  RegisterPoison poison{};
};

struct Product : Machine {
  Product() : Machine(14) {
    info.form.opcode = "mma";
    info.form.modifiers = {"sync", "aligned", "m16n8k16", "row", "col", "f32", "f16", "f16", "f32"};
    info.form.types = {ir::Type::f32, ir::Type::f16, ir::Type::f16, ir::Type::f32};
    kernel.lists = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};  // d, a, b, c
    inst.list = 0;
  }
  // Whether element (row, column) of D is undefined.
  [[nodiscard]] bool undefined(int row, int column) const {
    const int lane = row % 8 * 4 + column / 2;
    return poison.bits(static_cast<std::uint32_t>(row / 8 * 2 + column % 2), lane) != 0;
  }
};

TEST(MatrixMultiply, AnUndefinedRowOfAStaysInItsRow) {
  Product product;
  product.poison.set(5, 4 * 3 + 2, 0xffff, 1);  // a1 of lane 14: row 3 + 8
  poison_matrix_multiply(product.step());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column)
      EXPECT_EQ(product.undefined(row, column), row == 11) << row << ',' << column;
  }
}

TEST(MatrixMultiply, AnUndefinedColumnOfBStaysInItsColumn) {
  Product product;
  product.poison.set(9, 4 * 6 + 1, 0xffff0000, 1);  // b1 of lane 25: column 6
  poison_matrix_multiply(product.step());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) EXPECT_EQ(product.undefined(row, column), column == 6);
  }
}

TEST(MatrixMultiply, AnUndefinedAccumulatorStaysAlone) {
  Product product;
  product.poison.set(12, 9, all_bits, 1);  // c2 of lane 9: row 2 + 8, column 2
  poison_matrix_multiply(product.step());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) EXPECT_EQ(product.undefined(row, column), row == 10 && column == 2);
  }
}

TEST(Select, OnlyTheChosenSourceCounts) {
  Machine machine(3);
  machine.info.form.opcode = "selp";
  machine.info.form.types = {ir::Type::b32};
  machine.inst.d = 0;
  machine.inst.a = 1;
  machine.inst.b = 2;
  machine.inst.c = 0;
  machine.predicates[0] = 0x0000ffffu;
  machine.poison.poison(1, all_bits, 1);
  poison_select(machine.step());
  EXPECT_EQ(machine.poison.lanes(0), 0x0000ffffu);
  machine.poison.poison_predicate(0, 1u << 31, 1);
  poison_select(machine.step());
  EXPECT_EQ(machine.poison.lanes(0), 0x8000ffffu);
}

TEST(Shuffle, TheValueComesFromTheOtherLane) {
  Machine machine(4);
  machine.info.form.opcode = "shfl";
  machine.info.form.modifiers = {"sync", "bfly", "b32"};
  machine.info.form.types = {ir::Type::b32};
  machine.inst.d = 0;
  machine.inst.a = 1;
  machine.inst.b = 2;
  machine.inst.c = 3;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    machine.storage[64 + lane] = 16;
    machine.storage[96 + lane] = 31;
  }
  machine.poison.set(1, 3, all_bits, 1);
  poison_move(machine.step());
  EXPECT_EQ(machine.poison.lanes(0), 1u << 19);
}

TEST(GlobalShadow, RangesByteByByte) {
  constexpr std::uint64_t base = 1u << 20;
  auto made = GlobalShadow::create(base, 4096);
  ASSERT_TRUE(made);
  GlobalShadow& shadow = **made;
  EXPECT_FALSE(shadow.is_initialised(base, 1));
  shadow.mark_initialised(base + 3, 130);
  EXPECT_TRUE(shadow.is_initialised(base + 3, 130));
  EXPECT_FALSE(shadow.is_initialised(base + 2, 130));
  EXPECT_FALSE(shadow.is_initialised(base + 3, 131));
  EXPECT_EQ(shadow.initialised_bytes(base, 8), 0xf8u);
  shadow.copy(base + 1000, base, 8);
  EXPECT_EQ(shadow.initialised_bytes(base + 1000, 8), 0xf8u);
  shadow.mark_uninitialised(base + 4, 1);
  EXPECT_FALSE(shadow.is_initialised(base + 3, 8));
  shadow.trust_all();
  EXPECT_TRUE(shadow.is_initialised(base, 4096));
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
