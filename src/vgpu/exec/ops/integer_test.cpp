// Integer ops against arithmetic in 128 bits or bit by bit.
#include "vgpu/exec/ops/harness_test.hpp"

namespace flashmoe::vgpu::exec::ops {
namespace {

__extension__ typedef unsigned __int128 Bits;  // NOLINT(modernize-use-using): __extension__ wants a declaration
__extension__ typedef __int128 Exact;          // NOLINT(modernize-use-using): __extension__ wants a declaration

std::uint64_t cut(Exact value, int width) {
  return static_cast<std::uint64_t>(width == 64 ? value : value & ((Exact{1} << width) - 1));
}
Exact number(std::uint64_t bits, int width, bool is_signed) {
  const auto value = static_cast<Exact>(cut(bits, width));
  return is_signed && (value >> (width - 1) & 1) != 0 ? value - (Exact{1} << width) : value;
}

struct IntegerType {
  const char* name;
  int width;
  bool is_signed;
};
constexpr IntegerType integer_types[] = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                                         {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};

class IntegerOps : public testing::TestWithParam<IntegerType> {
 protected:
  template <class Function>
  void binary(const std::string& name, Function function) {
    const IntegerType t = GetParam();
    check_op(name + "." + t.name, t.width, {t.width, t.width}, [&](auto a, auto b, auto, auto) {
      return cut(function(number(a, t.width, t.is_signed), number(b, t.width, t.is_signed)), t.width);
    });
  }
};

TEST_P(IntegerOps, AddSubMulMinMax) {
  binary("add", [](Exact a, Exact b) { return a + b; });
  binary("sub", [](Exact a, Exact b) { return a - b; });
  binary("mul.lo", [](Exact a, Exact b) { return static_cast<Exact>(static_cast<Bits>(a) * static_cast<Bits>(b)); });
  binary("min", [](Exact a, Exact b) { return a < b ? a : b; });
  binary("max", [](Exact a, Exact b) { return a > b ? a : b; });
}

TEST_P(IntegerOps, MadAndWide) {
  const IntegerType t = GetParam();
  const auto exact = [&](std::uint64_t bits) { return number(bits, t.width, t.is_signed); };
  check_op(std::string("mad.lo.") + t.name, t.width, {t.width, t.width, t.width}, [&](auto a, auto b, auto c, auto) {
    const auto bits = [&](std::uint64_t x) { return static_cast<Bits>(exact(x)); };
    return cut(static_cast<Exact>(bits(a) * bits(b) + bits(c)), t.width);
  });
  if (t.width == 64) return;
  check_op(std::string("mul.wide.") + t.name, 2 * t.width, {t.width, t.width},
           [&](auto a, auto b, auto, auto) { return cut(exact(a) * exact(b), 2 * t.width); });
  check_op(std::string("mul.hi.") + t.name, t.width, {t.width, t.width},
           [&](auto a, auto b, auto, auto) { return cut((exact(a) * exact(b)) >> t.width, t.width); });
  check_op(std::string("mad.wide.") + t.name, 2 * t.width, {t.width, t.width, 2 * t.width},
           [&](auto a, auto b, auto c, auto) {
             return cut(exact(a) * exact(b) + number(c, 2 * t.width, t.is_signed), 2 * t.width);
           });
  check_op(std::string("mad.hi.") + t.name, t.width, {t.width, t.width, t.width},
           [&](auto a, auto b, auto c, auto) { return cut(((exact(a) * exact(b)) >> t.width) + exact(c), t.width); });
}

TEST_P(IntegerOps, DivisionNeverTraps) {
  const int width = GetParam().width;
  binary("div", [&](Exact a, Exact b) { return b == 0 ? (Exact{1} << width) - 1 : a / b; });
  binary("rem", [](Exact a, Exact b) { return b == 0 ? a : a % b; });
}

TEST_P(IntegerOps, Shifts) {
  const IntegerType t = GetParam();
  const auto at_most_width = [&](std::uint64_t b) { return static_cast<int>(b < 64u ? b : 64u); };
  check_op("shl.b" + std::to_string(t.width), t.width, {t.width, 32},
           [&](auto a, auto b, auto, auto) { return cut(number(a, t.width, false) << at_most_width(b), t.width); });
  check_op(std::string("shr.") + t.name, t.width, {t.width, 32}, [&](auto a, auto b, auto, auto) {
    return cut(number(a, t.width, t.is_signed) >> at_most_width(b), t.width);
  });
}

TEST_P(IntegerOps, OneSource) {
  const IntegerType t = GetParam();
  if (!t.is_signed) return;
  check_op(std::string("neg.") + t.name, t.width, {t.width},
           [&](auto a, auto, auto, auto) { return cut(-number(a, t.width, true), t.width); });
  check_op(std::string("abs.") + t.name, t.width, {t.width}, [&](auto a, auto, auto, auto) {
    const Exact value = number(a, t.width, true);
    return cut(value < 0 ? -value : value, t.width);
  });
}

INSTANTIATE_TEST_SUITE_P(Types, IntegerOps, testing::ValuesIn(integer_types),
                         [](const auto& type) { return std::string(type.param.name); });

TEST(LogicOps, BitByBit) {
  for (const int width : {16, 32, 64}) {
    const std::string type = ".b" + std::to_string(width);
    check_op("and" + type, width, {width, width}, [](auto a, auto b, auto, auto) { return a & b; });
    check_op("or" + type, width, {width, width}, [](auto a, auto b, auto, auto) { return a | b; });
    check_op("xor" + type, width, {width, width}, [](auto a, auto b, auto, auto) { return a ^ b; });
    check_op("not" + type, width, {width}, [&](auto a, auto, auto, auto) { return cut(~Exact{a}, width); });
    check_op("cnot" + type, width, {width}, [](auto a, auto, auto, auto) { return std::uint64_t{a == 0}; });
  }
}

TEST(LogicOps, Bfi) {
  for (const int width : {32, 64}) {
    check_op("bfi.b" + std::to_string(width), width, {width, width, 32, 32}, [&](auto a, auto b, auto c, auto m) {
      const std::uint64_t position = c & 255u, length = m & 255u;
      std::uint64_t f = b;
      for (std::uint64_t i = 0; i < length && position + i < static_cast<std::uint64_t>(width) && i < 64; ++i) {
        f = (f & ~(1ull << (position + i))) | (a >> i & 1u) << (position + i);
      }
      return f;
    });
  }
}

TEST(LogicOps, FunnelShift) {
  const auto both = [](std::uint64_t a, std::uint64_t b) {
    return static_cast<Exact>(b) << 32 | static_cast<Exact>(a);
  };
  check_op("shf.l.wrap.b32", 32, {32, 32, 32},
           [&](auto a, auto b, auto c, auto) { return cut((both(a, b) << (c % 32)) >> 32, 32); });
  check_op("shf.r.wrap.b32", 32, {32, 32, 32},
           [&](auto a, auto b, auto c, auto) { return cut(both(a, b) >> (c % 32), 32); });
  check_op("shf.l.clamp.b32", 32, {32, 32, 32},
           [&](auto a, auto b, auto c, auto) { return cut((both(a, b) << (c < 32 ? c : 32)) >> 32, 32); });
  check_op("shf.r.clamp.b32", 32, {32, 32, 32},
           [&](auto a, auto b, auto c, auto) { return cut(both(a, b) >> (c < 32 ? c : 32), 32); });
}

TEST(LogicOps, Lop3EveryTable) {
  for (const Isa isa : isas_of_host()) {
    const ir::Handler run = arithmetic_handler_for(form_of("lop3.b32"), isa);
    ASSERT_NE(run, nullptr);
    TestWarp test;
    Values values(32);
    for (int table = 0; table < 256; ++table) {
      for (const std::uint32_t slot : {a_slot, b_slot, c_slot}) {
        for (int lane = 0; lane < lanes_per_warp; ++lane) test.set(slot, lane, values.draw(), false);
      }
      ir::Inst inst;
      inst.d = d_slot, inst.a = a_slot, inst.b = b_slot, inst.c = c_slot, inst.imm = table;
      run(test.warp, inst);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        for (int bit = 0; bit < 32; ++bit) {
          const auto one = [&](std::uint32_t slot) { return test.get(slot, lane, false) >> bit & 1u; };
          const std::uint64_t row = one(a_slot) << 2 | one(b_slot) << 1 | one(c_slot);
          ASSERT_EQ(one(d_slot), static_cast<std::uint64_t>(table >> row & 1)) << table;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops
