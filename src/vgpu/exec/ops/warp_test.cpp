// Comparisons, selections, shuffles, votes and moves: what lanes tell each other, and what becomes of predicates.
#include <cmath>
#include <functional>

#include "vgpu/exec/ops/harness_test.hpp"

namespace flashmoe::vgpu::exec::ops {
namespace {

ir::Inst all_operands() {
  ir::Inst inst;
  inst.d = d_slot, inst.e = ir::no_slot, inst.a = a_slot, inst.b = b_slot, inst.c = c_slot, inst.m = ir::no_slot;
  return inst;
}

template <class T>
bool compare(const std::string& name, T a, T b) {
  const bool unordered = a != a || b != b;
  if (name == "num") return !unordered;
  if (name == "nan") return unordered;
  const bool answers_nan = name.size() == 3 && name[2] == 'u';
  if (unordered) return answers_nan;
  const std::string plain = answers_nan ? name.substr(0, 2) : name;
  if (plain == "eq") return a == b;
  if (plain == "ne") return a != b;
  if (plain == "lt" || plain == "lo") return a < b;
  if (plain == "le" || plain == "ls") return a <= b;
  if (plain == "gt" || plain == "hi") return a > b;
  return a >= b;
}

// setp.<compare>[.<combine>].<type> p|q, a, b, c with every combination, against a scalar comparison.
template <class T, class Decode>
void check_setp(const std::vector<std::string>& names, const std::string& type, int width, Decode value) {
  for (const std::string& name : names) {
    for (const std::string combine : {"", ".and", ".or", ".xor"}) {
      const std::string text = "setp." + name + combine + "." + type;
      for (const Isa isa : isas_of_host()) {
        const ir::Handler run = arithmetic_handler_for(form_of(text), isa);
        ASSERT_NE(run, nullptr) << text;
        TestWarp test;
        Values values(width);
        for (int round = 0; round < 8; ++round) {
          for (int lane = 0; lane < lanes_per_warp; ++lane) {
            test.set(a_slot, lane, values.draw(), width == 64);
            const bool same = values.draw() % 4 == 0;
            test.set(b_slot, lane, same ? test.get(a_slot, lane, width == 64) : values.draw(), width == 64);
          }
          const std::uint32_t before[] = {0x12345678u, 0x9abcdef0u, 0x55aa00ffu};
          test.predicates[0] = before[0], test.predicates[1] = before[1], test.predicates[2] = before[2];
          test.warp.exec = round % 2 == 0 ? all_lanes : 0x0ff0f00fu;
          ir::Inst inst = all_operands();
          inst.d = 0, inst.e = round % 4 == 3 ? ir::no_slot : 1u, inst.c = 2, inst.not_c = round % 3 == 1;
          run(test.warp, inst);
          for (int lane = 0; lane < lanes_per_warp; ++lane) {
            const T a = value(test.get(a_slot, lane, width == 64)), b = value(test.get(b_slot, lane, width == 64));
            const bool t = compare(name, a, b);
            const bool c = ((before[2] >> lane & 1u) != 0) != inst.not_c;
            const auto with_c = [&](bool x) {
              return combine.empty() ? x : combine == ".and" ? x && c : combine == ".or" ? x || c : x != c;
            };
            const bool runs = (test.warp.exec >> lane & 1u) != 0;
            ASSERT_EQ((test.predicates[0] >> lane & 1u) != 0, runs ? with_c(t) : (before[0] >> lane & 1u) != 0)
                << text << name_of(isa) << lane;
            const bool q = runs && inst.e == 1u ? with_c(!t) : (before[1] >> lane & 1u) != 0;
            ASSERT_EQ((test.predicates[1] >> lane & 1u) != 0, q) << text << name_of(isa) << lane;
          }
        }
      }
    }
  }
}

const std::vector<std::string> ordered = {"eq", "ne", "lt", "le", "gt", "ge"};
const std::vector<std::string> of_floats = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

TEST(Setp, Integers) {
  check_setp<std::int16_t>(ordered, "s16", 16, [](auto x) { return static_cast<std::int16_t>(x); });
  check_setp<std::uint16_t>({"eq", "lo", "hs"}, "u16", 16, [](auto x) { return static_cast<std::uint16_t>(x); });
  check_setp<std::int32_t>(ordered, "s32", 32, [](auto x) { return static_cast<std::int32_t>(x); });
  check_setp<std::uint32_t>({"eq", "ne", "lt", "ls", "hi", "ge"}, "u32", 32,
                            [](auto x) { return static_cast<std::uint32_t>(x); });
  check_setp<std::int64_t>(ordered, "s64", 64, [](auto x) { return static_cast<std::int64_t>(x); });
  check_setp<std::uint64_t>(ordered, "u64", 64, [](auto x) { return x; });
}

TEST(Setp, Floats) {
  const auto single = [](std::uint64_t x) { return as<float>(static_cast<std::uint32_t>(x)); };
  check_setp<float>(of_floats, "f32", 32, single);
  check_setp<float>({"eq", "ne", "ltu"}, "ftz.f32", 32,
                    [&](auto x) { return std::fpclassify(single(x)) == FP_SUBNORMAL ? 0.0f : single(x); });
  check_setp<double>(of_floats, "f64", 64, [](auto x) { return as<double>(x); });
}

TEST(Selp, ChoosesByPredicate) {
  for (const Isa isa : isas_of_host()) {
    for (const bool wide : {false, true}) {
      TestWarp test;
      Values values(wide ? 64 : 32);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        for (const std::uint32_t slot : {a_slot, b_slot, d_slot}) test.set(slot, lane, values.draw(), wide);
      }
      std::vector<std::uint64_t> before(lanes_per_warp);
      for (int lane = 0; lane < lanes_per_warp; ++lane) before[lane] = test.get(d_slot, lane, wide);
      test.predicates[3] = 0xc3a50ff1u;
      test.warp.exec = 0xfffffff0u;
      ir::Inst inst = all_operands();
      inst.c = 3;
      arithmetic_handler_for(form_of(wide ? "selp.b64" : "selp.f32"), isa)(test.warp, inst);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        const std::uint64_t chosen = test.get((test.predicates[3] >> lane & 1u) != 0 ? a_slot : b_slot, lane, wide);
        EXPECT_EQ(test.get(d_slot, lane, wide), lane < 4 ? before[lane] : chosen);
      }
    }
  }
}

// The pseudo code of the manual (9.7.9.6), lane by lane.
TEST(Shfl, FollowsTheManual) {
  for (const Isa isa : isas_of_host()) {
    for (const std::string mode : {"up", "down", "bfly", "idx"}) {
      const ir::Handler run = arithmetic_handler_for(form_of("shfl.sync." + mode + ".b32"), isa);
      for (const std::uint32_t width : {32u, 16u, 8u, 4u, 2u}) {
        for (std::uint32_t b = 0; b < 33; ++b) {
          TestWarp test;
          const std::uint32_t clamp = (mode == "up" ? 0u : 31u) | (32u - width) << 8;
          for (int lane = 0; lane < lanes_per_warp; ++lane) {
            test.set(a_slot, lane, 1000u + static_cast<unsigned>(lane), false);
            test.set(b_slot, lane, b, false);
            test.set(c_slot, lane, clamp, false);
          }
          ir::Inst inst = all_operands();
          inst.d = b % 2 == 0 ? d_slot : a_slot;
          inst.e = 0;
          run(test.warp, inst);
          for (int lane = 0; lane < lanes_per_warp; ++lane) {
            const int segmask = static_cast<int>(clamp >> 8 & 31u), cval = static_cast<int>(clamp & 31u);
            const int bval = static_cast<int>(b & 31u);
            const int max_lane = (lane & segmask) | (cval & ~segmask), min_lane = lane & segmask;
            int j = mode == "up"     ? lane - bval
                    : mode == "down" ? lane + bval
                    : mode == "bfly" ? lane ^ bval
                                     : min_lane | (bval & ~segmask);
            const bool in_range = mode == "up" ? j >= max_lane : j <= max_lane;
            if (!in_range) j = lane;
            ASSERT_EQ(test.get(inst.d, lane, false), 1000u + static_cast<unsigned>(j)) << mode << b << name_of(isa);
            ASSERT_EQ((test.predicates[0] >> lane & 1u) != 0, in_range) << mode << b;
          }
        }
      }
    }
  }
}

TEST(Votes, GroupsAnswerForThemselves) {
  TestWarp test;
  test.warp.exec = 0xffff00ffu;
  for (int lane = 0; lane < lanes_per_warp; ++lane) test.set(m_slot, lane, lane < 16 ? 0x00ffu : 0xffff0000u, false);
  for (int lane = 0; lane < lanes_per_warp; ++lane) test.set(a_slot, lane, lane < 16 ? 7 : lane, false);
  test.predicates[1] = 0x1234000fu;
  const auto run = [&](const char* text, std::uint32_t d, std::uint32_t e, std::uint32_t a) {
    ir::Inst inst;
    inst.d = d, inst.e = e, inst.a = a, inst.m = m_slot;
    arithmetic_handler_for(form_of(text), Isa::baseline)(test.warp, inst);
  };
  run("vote.sync.ballot.b32", d_slot, ir::no_slot, 1);
  EXPECT_EQ(test.get(d_slot, 0, false), 0x0000000fu);
  EXPECT_EQ(test.get(d_slot, 31, false), 0x12340000u);
  EXPECT_EQ(test.get(d_slot, 9, false), 0u);  // does not run
  run("vote.sync.any.pred", 2, ir::no_slot, 1);
  EXPECT_EQ(test.predicates[2], 0xffff00ffu);
  run("vote.sync.all.pred", 3, ir::no_slot, 1);
  EXPECT_EQ(test.predicates[3], 0u);
  run("match.any.sync.b32", d_slot, ir::no_slot, a_slot);
  EXPECT_EQ(test.get(d_slot, 3, false), 0x00ffu);
  EXPECT_EQ(test.get(d_slot, 20, false), 1u << 20);
  run("match.all.sync.b32", d_slot, 4, a_slot);
  EXPECT_EQ(test.predicates[4], 0x00ffu);
  EXPECT_EQ(test.get(d_slot, 0, false), 0x00ffu);
  EXPECT_EQ(test.get(d_slot, 20, false), 0u);
  run("redux.sync.add.u32", d_slot, ir::no_slot, a_slot);
  EXPECT_EQ(test.get(d_slot, 5, false), 56u);
  EXPECT_EQ(test.get(d_slot, 16, false), 376u);  // 16 + ... + 31
  run("redux.sync.max.s32", d_slot, ir::no_slot, a_slot);
  EXPECT_EQ(test.get(d_slot, 16, false), 31u);
  run("elect.sync", d_slot, 5, ir::no_slot);
  EXPECT_EQ(test.predicates[5], 0x00010001u);
  EXPECT_EQ(test.get(d_slot, 30, false), 16u);
  run("activemask.b32", d_slot, ir::no_slot, ir::no_slot);
  EXPECT_EQ(test.get(d_slot, 0, false), 0xffff00ffu);
}

TEST(Moves, PackAndUnpack) {
  for (const auto& [text, count, whole_wide, part_wide] :
       {std::tuple{"mov.b32", 2, false, false}, std::tuple{"mov.b64", 2, true, false},
        std::tuple{"mov.b64", 4, true, false}}) {
    const int part_bits = (whole_wide ? 64 : 32) / count;
    for (const Isa isa : isas_of_host()) {
      TestWarp test;
      Values values(part_bits);
      ir::Form form = form_of(text);
      form.source_count = count;
      for (int i = 0; i < count; ++i) {
        test.kernel.lists.push_back(a_slot + 2 * static_cast<std::uint32_t>(i));
        for (int lane = 0; lane < lanes_per_warp; ++lane)
          test.set(test.kernel.lists.back(), lane, values.draw(), part_wide);
      }
      ir::Inst inst;
      inst.d = d_slot, inst.list = 0;
      arithmetic_handler_for(form, isa)(test.warp, inst);
      form.source_count = 1, form.destination_count = count;
      for (int i = 0; i < count; ++i) test.kernel.lists.push_back(20 + 2 * static_cast<std::uint32_t>(i));
      test.kernel.lists.back() = ir::no_slot;  // {x, _}
      ir::Inst back;
      back.a = d_slot, back.list = static_cast<std::uint32_t>(count);
      arithmetic_handler_for(form, isa)(test.warp, back);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        for (int i = 0; i < count; ++i) {
          const std::uint64_t part = test.get(a_slot + 2 * static_cast<std::uint32_t>(i), lane, false);
          EXPECT_EQ(test.get(d_slot, lane, whole_wide) >> (part_bits * i) & ((1ull << part_bits) - 1), part);
          if (i + 1 < count) {
            EXPECT_EQ(test.get(20 + 2 * static_cast<std::uint32_t>(i), lane, false), part);
          }
        }
      }
    }
  }
}

TEST(Moves, SpecialRegisters) {
  TestWarp test;
  test.launch.block = {5, 3, 7};
  test.launch.grid = {11, 12, 13};
  test.cta.block = {4, 5, 6};
  test.warp.id = 2;
  ir::Form form = form_of("mov.u32");
  form.reads_special = true;
  const auto read = [&](ir::Special which, int lane) {
    ir::Inst inst;
    inst.d = d_slot;
    inst.special = static_cast<std::uint16_t>(which);
    arithmetic_handler_for(form, Isa::baseline)(test.warp, inst);
    return test.get(d_slot, lane, false);
  };
  // Thread 64 + 9 = 73 = 3 + 5 (2 + 3 * 4)
  EXPECT_EQ(read(ir::Special::tid_x, 9), 3u);
  EXPECT_EQ(read(ir::Special::tid_y, 9), 2u);
  EXPECT_EQ(read(ir::Special::tid_z, 9), 4u);
  EXPECT_EQ(read(ir::Special::ctaid_y, 0), 5u);
  EXPECT_EQ(read(ir::Special::nctaid_z, 0), 13u);
  EXPECT_EQ(read(ir::Special::ntid_y, 0), 3u);
  EXPECT_EQ(read(ir::Special::laneid, 31), 31u);
  EXPECT_EQ(read(ir::Special::lanemask_lt, 31), 0x7fffffffu);
  EXPECT_EQ(read(ir::Special::lanemask_gt, 31), 0u);
  EXPECT_EQ(read(ir::Special::lanemask_ge, 0), 0xffffffffu);
  const std::uint64_t clock = read(ir::Special::clock, 0);
  test.warp.instructions += 10;
  EXPECT_GT(read(ir::Special::clock, 0), clock);
}

TEST(Movmatrix, Transposes) {
  TestWarp test;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {  // element (row, column) is 8 row + column
    const auto low = static_cast<std::uint32_t>(8 * (lane / 4) + 2 * (lane % 4));
    test.set(a_slot, lane, low | (low + 1) << 16, false);
  }
  ir::Inst inst = all_operands();
  arithmetic_handler_for(form_of("movmatrix.sync.aligned.m8n8.trans.b16"), Isa::baseline)(test.warp, inst);
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    const auto low = static_cast<std::uint32_t>(8 * (2 * (lane % 4)) + lane / 4);
    EXPECT_EQ(test.get(d_slot, lane, false), low | (low + 8) << 16);
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops
