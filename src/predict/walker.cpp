#include "predict/walker.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace flashmoe::predict {
namespace {

// The recorded outcomes of one PTX branch, one after the other.
struct Cursor {
  const std::vector<OutcomeRun>* runs = nullptr;
  std::size_t run = 0;
  std::uint32_t used = 0;

  [[nodiscard]] bool at_end() const { return runs == nullptr || run == runs->size(); }
  Outcome next() {
    const Outcome outcome = (*runs)[run].outcome;
    if (++used == (*runs)[run].times) {
      ++run;
      used = 0;
    }
    return outcome;
  }
  // How often it is still taken in a row.
  [[nodiscard]] std::uint32_t taken_now() const {
    return at_end() || (*runs)[run].outcome != Outcome::taken ? 0 : (*runs)[run].times - used;
  }
};

// Lanes that parted inside a BSSY and are still to run, by the block where they go on.
struct Scope {
  std::string_view name{};
  std::vector<std::uint32_t> waiting{};
};

class Walker {
 public:
  Walker(const SassKernel& kernel, const std::vector<Block>& blocks, const std::vector<Reading>& readings,
         const PtxWarp& warp, const Votes& votes)
      : kernel_(kernel), blocks_(blocks), readings_(readings), warp_(warp), votes_(votes) {
    walk_.heard.resize(votes.speakers().size(), 0);
    double steps = 0;
    for (std::uint32_t at = 0; at < blocks.size(); ++at) steps += std::max(votes.alone(at).value_or(1), 1.0);
    most_steps_ = 1000 + 4 * static_cast<std::size_t>(steps);
  }

  WarpWalk run() {
    std::uint32_t at = 0;
    while (at != ended) {
      if (walk_.order.size() == most_steps_) {
        walk_.is_complete = false;
        break;
      }
      walk_.order.push_back(at);
      for (const Votes::Share& share : votes_.shares(at)) walk_.heard[share.speaker] += share.copies;
      at = after(at);
    }
    return std::move(walk_);
  }

 private:
  static constexpr std::uint32_t ended = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t next_of(std::uint32_t at) const { return at + 1 < blocks_.size() ? at + 1 : ended; }

  std::uint32_t after(std::uint32_t at) {
    const Block& block = blocks_[at];
    switch (block.ending) {
      case Ending::falls:
        return next_of(at);
      case Ending::jumps:
      case Ending::calls:
      case Ending::exits:
        return block.is_conditional ? decided(at) : taken(at);
      case Ending::returns: {
        if (calls_.empty()) return end_of_lanes();
        const std::uint32_t back = calls_.back();
        calls_.pop_back();
        return back;
      }
      case Ending::opens:
        scopes_.push_back({register_of(block), {}});
        return next_of(at);
      case Ending::meets:
        return meet(at);
      case Ending::lost:
        return by_vote_of_all(at);
    }
    return ended;
  }

  std::uint32_t taken(std::uint32_t at) {
    const Block& block = blocks_[at];
    if (block.ending == Ending::exits) return end_of_lanes();
    if (block.ending == Ending::calls) calls_.push_back(next_of(at));
    return *block.target;
  }

  // Some lanes have exited; those that wait go on.
  std::uint32_t end_of_lanes() {
    while (!scopes_.empty()) {
      if (!scopes_.back().waiting.empty()) return take_waiting(scopes_.back());
      scopes_.pop_back();
    }
    return ended;
  }

  static std::uint32_t take_waiting(Scope& scope) {
    const std::uint32_t at = scope.waiting.back();
    scope.waiting.pop_back();
    return at;
  }

  std::uint32_t meet(std::uint32_t at) {
    const std::string_view name = register_of(blocks_[at]);
    const auto scope =
        std::find_if(scopes_.rbegin(), scopes_.rend(), [&](const Scope& one) { return one.name == name; });
    if (scope == scopes_.rend()) return next_of(at);
    scopes_.erase(scope.base(), scopes_.end());  // those inside it are over
    if (!scopes_.back().waiting.empty()) return take_waiting(scopes_.back());
    scopes_.pop_back();
    return next_of(at);
  }

  std::string_view register_of(const Block& block) const {
    const std::vector<std::string>& operands = kernel_.instructions[block.last()].operands;
    return operands.empty() ? std::string_view{} : std::string_view(operands.front());
  }

  std::uint32_t decided(std::uint32_t at) {
    const Reading reading = readings_[at];
    Cursor* const cursor = reading == Reading::by_votes ? nullptr : cursor_of(at);
    if (cursor == nullptr || cursor->at_end()) return by_votes(at) ? taken(at) : next_of(at);
    const bool is_inverted = reading == Reading::inverted;
    const std::uint32_t rounds = votes_.rounds(at);
    const Outcome outcome = rounds > 1 ? after_rounds(*cursor, rounds) : cursor->next();
    if (outcome == Outcome::both) return both(at, is_inverted);
    return (outcome == Outcome::taken) != is_inverted ? taken(at) : next_of(at);
  }

  // An unrolled loop does several rounds a pass, and is left for another one when there are not enough for the next.
  static Outcome after_rounds(Cursor& cursor, std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < rounds && !cursor.at_end(); ++i)
      if (cursor.next() != Outcome::taken) return Outcome::not_taken;
    return cursor.taken_now() + 1 >= rounds ? Outcome::taken : Outcome::not_taken;
  }

  // Those that do not take the PTX branch go first, as on the virtual GPU.
  std::uint32_t both(std::uint32_t at, bool is_inverted) {
    const Block& block = blocks_[at];
    if (block.ending != Ending::jumps) return next_of(at);  // who exits, exits; the others go on
    if (scopes_.empty()) return by_votes(at) ? taken(at) : next_of(at);
    scopes_.back().waiting.push_back(is_inverted ? next_of(at) : *block.target);
    return is_inverted ? *block.target : next_of(at);
  }

  Cursor* cursor_of(std::uint32_t at) {
    const std::uint32_t line = kernel_.instructions[blocks_[at].last()].ptx_line;
    const auto recorded = warp_.branches.find(line);
    if (recorded == warp_.branches.end()) return nullptr;
    Cursor& cursor = cursors_[line];
    cursor.runs = &recorded->second;
    return &cursor;
  }

  // What is left of a block's vote, as a share of it; not even one pass: nothing.
  double left(std::uint32_t block) const {
    const auto& speaker = votes_.speaker_of(block);
    if (!speaker) return 0.25;
    const double count = votes_.speakers()[speaker->speaker].count;
    const double rest = count - walk_.heard[speaker->speaker];
    return rest < speaker->copies ? -1 : rest / count;
  }

  // Without a record: the way of which more is left; round a loop first.
  bool by_votes(std::uint32_t at) const {
    const Block& block = blocks_[at];
    const std::uint32_t next = next_of(at);
    if (block.ending == Ending::exits) return next == ended || left(next) <= 0;
    const double of_target = left(*block.target), of_next = next == ended ? -1 : left(next);
    if (*block.target <= at) return of_target > 0;
    // What calls a subroutine is the rare case, of a division or a root.
    const auto calls = [&](std::uint32_t to) { return to != ended && blocks_[to].ending == Ending::calls; };
    if (calls(next) != calls(*block.target)) return calls(next);
    return of_target > of_next;
  }

  // A jump through a register: to the block that has most left of its vote and that nobody falls into.
  std::uint32_t by_vote_of_all(std::uint32_t at) const {
    std::uint32_t best = ended;
    double most = 0;
    for (std::uint32_t one = 1; one < blocks_.size(); ++one) {
      const Ending before = blocks_[one - 1].ending;
      const bool is_entered = !blocks_[one - 1].is_conditional &&
                              (before == Ending::jumps || before == Ending::exits || before == Ending::lost);
      if (!is_entered || one == at || left(one) <= most) continue;
      most = left(one);
      best = one;
    }
    return best;
  }

  const SassKernel& kernel_;
  const std::vector<Block>& blocks_;
  const std::vector<Reading>& readings_;
  const PtxWarp& warp_;
  const Votes& votes_;
  std::map<std::uint32_t, Cursor> cursors_{};  // by PTX line
  std::vector<Scope> scopes_{};
  std::vector<std::uint32_t> calls_{};
  WarpWalk walk_{};
  std::size_t most_steps_ = 0;
};

}  // namespace

WarpWalk walk_warp(const SassKernel& kernel, const std::vector<Block>& blocks, const std::vector<Reading>& readings,
                   const PtxWarp& warp, const Votes& votes) {
  return Walker(kernel, blocks, readings, warp, votes).run();
}

}  // namespace flashmoe::predict
