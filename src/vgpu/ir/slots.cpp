#include "vgpu/ir/slots.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace flashmoe::vgpu::ir {
namespace {

class BitSet {
 public:
  explicit BitSet(std::size_t size) : words_((size + 63) / 64, 0) {}
  void insert(std::uint32_t bit) { words_[bit / 64] |= std::uint64_t{1} << (bit % 64); }
  // this |= (other - without); true: it grew.
  bool add(const BitSet& other, const BitSet& without) {
    bool grew = false;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t joined = words_[i] | (other.words_[i] & ~without.words_[i]);
      grew |= joined != words_[i];
      words_[i] = joined;
    }
    return grew;
  }
  void add(const BitSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  template <class Do>
  void for_each(const Do& act) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
        act(static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(__builtin_ctzll(word))));
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct Liveness {
  std::vector<std::uint32_t> names{};  // of the registers that live in more than one block; bits count in these
  std::vector<BitSet> in{}, out{};
};

// Per thread: slots are lane-wise (Pool keeps widths apart), so splits of a warp at different places do not disturb
// each other, and the control flow graph of one thread says all. A guarded definition keeps the old value of the lanes
// that do not pass: it ends no lifetime.
Liveness live_registers(const FunctionDraft& draft, const FlowGraph& graph) {
  const auto count = static_cast<std::uint32_t>(graph.blocks.size());
  const auto for_each_written = [&](std::uint32_t b, std::uint32_t i, const auto& act) {
    if (draft.code[i].is_guarded()) return;
    for (const Reference& reference : draft.code[i].references)
      if (reference.is_written) act(b, reference.name);
  };
  // Most registers are written and read in one block; only those that a block finds alive are followed.
  std::vector<std::uint32_t> names;
  std::vector<std::uint32_t> number(draft.registers.size(), no_slot), written_in(draft.registers.size(), no_slot);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found_alive;  // block, number
  for (std::uint32_t b = 0; b < count; ++b) {
    for (std::uint32_t i = graph.blocks[b].first; i < graph.blocks[b].end; ++i) {
      for (const Reference& reference : draft.code[i].references) {
        if (reference.is_written || written_in[reference.name] == b) continue;
        if (number[reference.name] == no_slot) {
          number[reference.name] = static_cast<std::uint32_t>(names.size());
          names.push_back(reference.name);
        }
        found_alive.emplace_back(b, number[reference.name]);
      }
      for_each_written(b, i, [&](std::uint32_t block, std::uint32_t name) { written_in[name] = block; });
    }
  }
  const std::vector<BitSet> none(count, BitSet(names.size()));
  Liveness live{std::move(names), none, none};
  std::vector<BitSet> defined = none;
  for (const auto& [b, alive] : found_alive) live.in[b].insert(alive);
  for (std::uint32_t b = 0; b < count; ++b)
    for (std::uint32_t i = graph.blocks[b].first; i < graph.blocks[b].end; ++i)
      for_each_written(b, i, [&](std::uint32_t block, std::uint32_t name) {
        if (number[name] != no_slot) defined[block].insert(number[name]);
      });
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = count; b-- > 0;) {
      for (const std::uint32_t next : graph.blocks[b].successors) live.out[b].add(live.in[next]);
      changed |= live.in[b].add(live.out[b], defined[b]);
    }
  }
  return live;
}

// Slots one after another, taken from the lowest free one so that a frame stays short. What was half of a wide register
// never becomes a narrow one: lane 5 of a narrow slot lies where lane 2 of a wide register keeps its upper half, and
// another split of the warp may still need that.
class Pool {
 public:
  std::uint32_t take(std::uint32_t width) {
    std::set<std::uint32_t>& free = free_[width - 1];
    if (free.empty()) return std::exchange(end_, end_ + width);
    return free.extract(free.begin()).value();
  }
  void give_back(std::uint32_t first, std::uint32_t width) { free_[width - 1].insert(first); }
  [[nodiscard]] std::uint32_t end() const { return end_; }

 private:
  std::array<std::set<std::uint32_t>, 2> free_{};  // narrow, wide
  std::uint32_t end_ = 0;
};

}  // namespace

std::vector<Lifetime> lifetimes(const FunctionDraft& draft, const FlowGraph& graph) {
  const Liveness live = live_registers(draft, graph);
  std::vector<Lifetime> times(draft.registers.size(), {no_slot, 0});
  const auto touch = [&](std::uint32_t name, std::uint32_t at) {
    times[name].first = std::min(times[name].first, at);
    times[name].second = std::max(times[name].second, at);
  };
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    const BasicBlock& block = graph.blocks[b];
    live.in[b].for_each([&](std::uint32_t number) { touch(live.names[number], block.first); });
    live.out[b].for_each([&](std::uint32_t number) { touch(live.names[number], block.end - 1); });
    for (std::uint32_t i = block.first; i < block.end; ++i)
      for (const Reference& reference : draft.code[i].references) touch(reference.name, i);
  }
  return times;
}

Placement place_registers(const FunctionDraft& draft, const FlowGraph& graph) {
  Placement placement;
  placement.places.assign(draft.registers.size(), no_slot);
  Pool slots, predicates;
  // Constants are filled once when a frame begins and stay.
  for (const ConstantRegister& constant : draft.constants)
    placement.places[constant.name] = slots.take(draft.registers[constant.name].is_wide() ? 2 : 1);
  if (draft.true_predicate != no_slot) placement.places[draft.true_predicate] = predicates.take(1);

  const std::vector<Lifetime> times = lifetimes(draft, graph);
  std::vector<std::uint32_t> order;
  for (std::uint32_t name = 0; name < times.size(); ++name)
    if (times[name].first != no_slot && placement.places[name] == no_slot) order.push_back(name);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(times[a].first, a) < std::pair(times[b].first, b);
  });
  std::set<std::pair<std::uint32_t, std::uint32_t>> alive;  // end of life, register
  for (const std::uint32_t name : order) {
    // Ends at or after this instruction: still in the way, so that no destination lies on another register's source.
    while (!alive.empty() && alive.begin()->first < times[name].first) {
      const std::uint32_t gone = alive.begin()->second;
      const Register& reg = draft.registers[gone];
      (reg.is_predicate() ? predicates : slots).give_back(placement.places[gone], reg.is_wide() ? 2 : 1);
      alive.erase(alive.begin());
    }
    const Register& reg = draft.registers[name];
    placement.places[name] = (reg.is_predicate() ? predicates : slots).take(reg.is_wide() ? 2 : 1);
    alive.emplace(times[name].second, name);
  }
  placement.slots = slots.end();
  placement.predicates = predicates.end();
  return placement;
}

}  // namespace flashmoe::vgpu::ir
