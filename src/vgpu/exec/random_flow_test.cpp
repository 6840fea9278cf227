// Random control flow, irreducible graphs included, against an interpreter of one thread at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/run_ptx.hpp"

namespace flashmoe::vgpu::exec {
namespace {

constexpr int registers = 4;

struct Step {
  enum class Kind { add, xor_, mul, shift } kind = Kind::add;
  int to = 0, from = 0;
  std::uint32_t constant = 0;
};

// After its steps: fuel is spent (none left: exit); then a branch on one bit of a register, else the next target.
struct Block {
  std::vector<Step> steps{};
  int tested = 0, bit = 0;
  int taken = 0, other = 0;
};

struct Program {
  std::vector<Block> blocks{};
  std::uint32_t fuel = 0;
};

Program random_program(std::mt19937& random) {
  const auto below = [&](std::uint32_t n) { return static_cast<int>(random() % n); };
  Program program;
  program.blocks.resize(static_cast<std::size_t>(3 + below(9)));
  program.fuel = static_cast<std::uint32_t>(10 + below(60));
  const auto count = static_cast<std::uint32_t>(program.blocks.size());
  for (Block& block : program.blocks) {
    for (int i = below(4); i >= 0; --i) {
      block.steps.push_back({static_cast<Step::Kind>(below(4)), below(registers), below(registers),
                             static_cast<std::uint32_t>(random()) | 1u});
    }
    block.tested = below(registers);
    block.bit = below(6);
    block.taken = below(count);
    block.other = below(count + 1);  // one beyond: exit
  }
  return program;
}

std::string text_of(const Program& program) {
  std::string text = prologue() + "mov.u32 %r10, %r5; mul.lo.s32 %r11, %r5, 7919; xor.b32 %r12, %r5, 85;\n";
  text += fmt::format("shl.b32 %r13, %r5, 3; mov.u32 %r20, {};\n", program.fuel);
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    text += fmt::format("B{}:\n", b);
    for (const Step& step : block.steps) {
      const int to = 10 + step.to, from = 10 + step.from;
      switch (step.kind) {
        case Step::Kind::add:
          text += fmt::format("add.s32 %r{0}, %r{0}, %r{1}; add.s32 %r{0}, %r{0}, {2};\n", to, from, step.constant);
          break;
        case Step::Kind::xor_:
          text += fmt::format("xor.b32 %r{0}, %r{0}, %r{1}; xor.b32 %r{0}, %r{0}, {2};\n", to, from, step.constant);
          break;
        case Step::Kind::mul:
          text += fmt::format("mul.lo.s32 %r{}, %r{}, {};\n", to, from, step.constant);
          break;
        case Step::Kind::shift:
          text += fmt::format("shr.u32 %r21, %r{1}, {2}; add.s32 %r{0}, %r{0}, %r21;\n", to, from, step.constant % 31);
          break;
      }
    }
    text += "setp.eq.u32 %p1, %r20, 0; @%p1 bra END; sub.s32 %r20, %r20, 1;\n";
    text += fmt::format("shr.u32 %r21, %r{}, {}; and.b32 %r21, %r21, 1; setp.ne.u32 %p2, %r21, 0; @%p2 bra B{};\n",
                        10 + block.tested, block.bit, block.taken);
    text += block.other == static_cast<int>(program.blocks.size()) ? "bra.uni END;\n"
                                                                   : fmt::format("bra.uni B{};\n", block.other);
  }
  return text + R"(END: xor.b32 %r22, %r10, %r11; mul.lo.s32 %r23, %r12, 31; xor.b32 %r22, %r22, %r23;
  add.s32 %r22, %r22, %r13; add.s32 %r22, %r22, %r20; st.global.u32 [%rd2], %r22; ret;)";
}

std::uint32_t interpret(const Program& program, std::uint32_t thread) {
  std::array<std::uint32_t, registers> r{thread, thread * 7919, thread ^ 85, thread << 3};
  std::uint32_t fuel = program.fuel;
  for (int at = 0; at != static_cast<int>(program.blocks.size());) {
    const Block& block = program.blocks[static_cast<std::size_t>(at)];
    for (const Step& step : block.steps) {
      std::uint32_t& to = r[static_cast<std::size_t>(step.to)];
      const std::uint32_t from = r[static_cast<std::size_t>(step.from)];
      switch (step.kind) {
        case Step::Kind::add:
          to = to + from + step.constant;
          break;
        case Step::Kind::xor_:
          to = to ^ from ^ step.constant;
          break;
        case Step::Kind::mul:
          to = from * step.constant;
          break;
        case Step::Kind::shift:
          to += from >> (step.constant % 31);
          break;
      }
    }
    if (fuel == 0) {
      break;
    }
    --fuel;
    at = (r[static_cast<std::size_t>(block.tested)] >> block.bit & 1) != 0 ? block.taken : block.other;
  }
  return ((r[0] ^ r[1]) ^ (r[2] * 31)) + r[3] + fuel;
}

TEST(RandomFlow, EqualsOneThreadAtATime) {
  std::mt19937 random(20240805);
  for (int round = 0; round < 150; ++round) {
    const Program program = random_program(random);
    PtxRunner runner(text_of(program));
    runner.launch.schedule.seed = static_cast<std::uint64_t>(round % 3);
    ASSERT_EQ(runner.run(2, 48).fault.message, "") << round;
    for (std::uint32_t thread = 0; thread < 96; ++thread) {
      ASSERT_EQ(runner.at(thread), interpret(program, thread)) << "program " << round << ", thread " << thread << "\n"
                                                               << text_of(program);
    }
  }
}

// The order of all instructions of all warps, as a number.
class Trace : public Observer {
 public:
  void before(Warp& warp, const ir::Inst&, std::uint32_t pc) override {
    for (const std::uint64_t word :
         {warp.cta->linear, std::uint64_t{warp.id}, std::uint64_t{pc}, std::uint64_t{warp.exec}}) {
      hash = (hash ^ word) * 0x100000001b3ull;
    }
  }
  std::uint64_t hash = 0xcbf29ce484222325ull;
};

TEST(RandomFlow, ASeedGivesOneOrder) {
  std::mt19937 random(7);
  const Program program = random_program(random);
  PtxRunner runner(text_of(program), Mode::observed);
  std::vector<std::uint64_t> of_seed;
  for (const std::uint64_t seed : {0, 1, 2}) {
    runner.launch.schedule = seed == 0 ? Schedule{} : Schedule::adversarial(seed);
    std::uint64_t first = 0;
    for (int repeat = 0; repeat < 20; ++repeat) {
      Trace trace;
      runner.launch.observer = &trace;
      ASSERT_EQ(runner.run(7, 96).fault.message, "");
      first = repeat == 0 ? trace.hash : first;
      ASSERT_EQ(trace.hash, first) << "seed " << seed << ", repeat " << repeat;
    }
    of_seed.push_back(first);
  }
  EXPECT_NE(of_seed[0], of_seed[1]);
  EXPECT_NE(of_seed[1], of_seed[2]);
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
