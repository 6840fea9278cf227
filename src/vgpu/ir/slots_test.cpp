#include "vgpu/ir/slots.hpp"

#include <gtest/gtest.h>

#include <random>

namespace flashmoe::vgpu::ir {
namespace {

constexpr std::uint64_t kUndefined = ~std::uint64_t{0};

// A function of random instructions, guards, branches and loops, with registers of all widths.
FunctionDraft random_function(std::mt19937& random) {
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  FunctionDraft draft;
  const std::uint32_t registers = 6 + below(30);
  for (std::uint32_t i = 0; i < registers; ++i) {
    constexpr int widths[] = {1, 1, 16, 32, 32, 32, 64, 64};
    draft.registers.push_back({"r" + std::to_string(i), widths[below(8)]});
  }
  draft.registers[0].bits = 1;
  const std::uint32_t size = 10 + below(60);
  for (std::uint32_t i = 0; i < 5; ++i) draft.labels.push_back(below(size));
  if (below(2) == 0) {
    draft.registers[1].bits = 64;
    draft.constants.push_back({1, 77, false});
  }
  const auto is_constant = [&](std::uint32_t name) { return !draft.constants.empty() && name == 1; };
  for (std::uint32_t i = 0; i < size; ++i) {
    Draft& one = draft.code.emplace_back();
    if (below(5) == 0) one.references.push_back({Reference::Where::guard, 0, 0, false});
    const std::uint32_t choice = below(10);
    if (i + 1 == size || choice == 0) {
      one.flow = i + 1 == size ? Flow::returns : Flow::branch;
      if (one.flow == Flow::branch) one.labels.push_back(below(5));
      if (i + 1 == size) one.references.clear();
      continue;
    }
    for (std::uint32_t reads = below(4); reads > 0; --reads)
      one.references.push_back({Reference::Where::list, 0, below(registers), false});
    const auto written = below(registers);
    if (!is_constant(written)) one.references.push_back({Reference::Where::d, 0, written, true});
  }
  return draft;
}

// Walks the function along a random way, once with a register for every name and once with the slots, and compares what
// each instruction reads. Every slot holds half of a wide register's value.
class TwoMachines {
 public:
  TwoMachines(const FunctionDraft& draft, const Placement& placement)
      : draft_(draft),
        placement_(placement),
        named_(draft.registers.size(), kUndefined),
        slots_(placement.slots, kUndefined),
        predicates_(placement.predicates, kUndefined) {
    for (const ConstantRegister& constant : draft.constants) write(constant.name, constant.bits);
  }

  void walk(std::mt19937& random) {
    std::uint32_t pc = 0;
    for (int step = 0; step < 300 && !::testing::Test::HasFailure(); ++step) {
      const Draft& one = draft_.code[pc];
      std::uint64_t result = 1000 + pc;
      for (const Reference& reference : one.references)
        if (!reference.is_written) result = result * 31 + read(reference.name, pc);
      const bool passes = !one.is_guarded() || random() % 2 == 0;
      if (passes)
        for (const Reference& reference : one.references)
          if (reference.is_written) write(reference.name, result % 1000003);
      if (one.flow == Flow::returns && passes) return;
      pc = one.flow == Flow::branch && passes ? draft_.labels[one.labels[0]] : pc + 1;
    }
  }

 private:
  std::uint64_t read(std::uint32_t name, std::uint32_t pc) {
    const std::uint32_t place = placement_.places[name];
    const Register& reg = draft_.registers[name];
    const std::vector<std::uint64_t>& file = reg.is_predicate() ? predicates_ : slots_;
    // A register that nobody wrote is seen as such: no other one was placed on it meanwhile.
    EXPECT_EQ(file[place], named_[name]) << reg.name << " at " << pc;
    if (reg.is_wide()) {
      EXPECT_EQ(file[place + 1], named_[name]) << reg.name << " at " << pc;
    }
    return named_[name];
  }
  void write(std::uint32_t name, std::uint64_t value) {
    named_[name] = value;
    const std::uint32_t place = placement_.places[name];
    std::vector<std::uint64_t>& file = draft_.registers[name].is_predicate() ? predicates_ : slots_;
    file[place] = value;
    if (draft_.registers[name].is_wide()) file[place + 1] = value;
  }

  const FunctionDraft& draft_;
  const Placement& placement_;
  std::vector<std::uint64_t> named_, slots_, predicates_;
};

TEST(Slots, RandomProgramsReadWhatTheyWrote) {
  std::mt19937 random(7);
  std::uint64_t packed = 0, unpacked = 0;
  for (int round = 0; round < 600; ++round) {
    const FunctionDraft draft = random_function(random);
    const Placement placement = place_registers(draft, build_flow(draft));
    packed += placement.slots;
    for (const Register& reg : draft.registers) unpacked += reg.is_predicate() ? 0 : reg.is_wide() ? 2 : 1;
    for (int way = 0; way < 8; ++way) TwoMachines(draft, placement).walk(random);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_LT(packed, unpacked);
}

TEST(Slots, DestinationsLieOnNoOtherSource) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const FunctionDraft draft = random_function(random);
    const Placement placement = place_registers(draft, build_flow(draft));
    const auto overlap = [&](std::uint32_t a, std::uint32_t b) {
      if (draft.registers[a].is_predicate() != draft.registers[b].is_predicate()) return false;
      const std::uint32_t a_end = placement.places[a] + (draft.registers[a].is_wide() ? 2 : 1);
      const std::uint32_t b_end = placement.places[b] + (draft.registers[b].is_wide() ? 2 : 1);
      return placement.places[a] < b_end && placement.places[b] < a_end;
    };
    for (const Draft& one : draft.code)
      for (const Reference& written : one.references)
        for (const Reference& read : one.references)
          if (written.is_written && !read.is_written && written.name != read.name) {
            EXPECT_FALSE(overlap(written.name, read.name)) << "round " << round;
          }
  }
}

TEST(Slots, StraightLineReusesSlots) {
  // r0 = ..; r1 = r0; r2 = r1; ...: two slots are enough.
  FunctionDraft draft;
  for (std::uint32_t i = 0; i < 20; ++i) {
    draft.registers.push_back({"r", 32});
    Draft& one = draft.code.emplace_back();
    if (i > 0) one.references.push_back({Reference::Where::a, 0, i - 1, false});
    one.references.push_back({Reference::Where::d, 0, i, true});
  }
  EXPECT_EQ(place_registers(draft, build_flow(draft)).slots, 2u);
}

TEST(Slots, GuardedDefinitionKeepsTheOldValueAlive) {
  // a is read after a guarded definition only: where the guard fails, what it held from the beginning is read.
  FunctionDraft draft;
  draft.registers = {{"p", 1}, {"a", 32}, {"b", 32}};
  draft.code.resize(4);
  draft.code[1].references = {{Reference::Where::d, 0, 2, true}};
  draft.code[2].references = {{Reference::Where::guard, 0, 0, false}, {Reference::Where::d, 0, 1, true}};
  draft.code[3].references = {{Reference::Where::a, 0, 1, false}};
  EXPECT_EQ(lifetimes(draft, build_flow(draft))[1], (Lifetime{0, 3}));
  EXPECT_EQ(lifetimes(draft, build_flow(draft))[2], (Lifetime{1, 1}));
  draft.code[2].references.erase(draft.code[2].references.begin());
  EXPECT_EQ(lifetimes(draft, build_flow(draft))[1], (Lifetime{2, 3}));
}

}  // namespace
}  // namespace flashmoe::vgpu::ir
