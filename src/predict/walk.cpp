#include "predict/walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "predict/blocks.hpp"
#include "predict/votes.hpp"
#include "predict/walker.hpp"

namespace flashmoe::predict {
namespace {

// Warps that did the same are walked once.
struct Distinct {
  const PtxWarp* warp = nullptr;
  Votes votes;
  double times = 0;
  WarpWalk walk{};

  // Executed instructions by which walk and votes differ.
  [[nodiscard]] double distance() const {
    double sum = 0;
    for (std::size_t i = 0; i < walk.heard.size(); ++i)
      sum += votes.speakers()[i].weight * std::abs(walk.heard[i] - votes.speakers()[i].count);
    return walk.is_complete ? sum : 10 * sum + 1;
  }
};

class Reader {
 public:
  Reader(const SassKernel& kernel, const PtxRun& run) : kernel_(kernel), blocks_(blocks_of(kernel)) {
    const LineCopies copies = line_copies(kernel, blocks_);
    for (const PtxCta& cta : run.ctas) {
      for (const PtxWarp& warp : cta.warps) {
        auto same = std::find_if(all_.begin(), all_.end(), [&](const Distinct& one) { return *one.warp == warp; });
        if (same == all_.end())
          same =
              all_.insert(same, {.warp = &warp, .votes = Votes(kernel, blocks_, copies, warp), .times = 0, .walk = {}});
        ++same->times;
      }
    }
    readings_.resize(blocks_.size(), Reading::recorded);
    entries_.resize(blocks_.size(), 0);
    for (std::uint32_t at = 0; at < blocks_.size(); ++at) {
      const Block& block = blocks_[at];
      if (block.leads_to_next() && at + 1 < blocks_.size()) ++entries_[at + 1];
      if (block.target && block.ending != Ending::opens) ++entries_[*block.target];
    }
    for (std::uint32_t at = 0; at < blocks_.size(); ++at)
      if (is_recorded(blocks_[at]) && misfit(at, true) < misfit(at, false)) readings_[at] = Reading::inverted;
  }

  // The one change that brings the walk nearest to the votes, again and again until none does. One after the other
  // would not do: beside a wrong reading a second wrong one may look better than the right one.
  void choose_readings() {
    double best = walk_all();
    while (best > 0 && steps_ < most_steps) {
      std::size_t branch = blocks_.size();
      Reading reading = Reading::recorded;
      for (std::size_t at = 0; at < blocks_.size() && steps_ < most_steps; ++at) {
        if (!is_recorded(blocks_[at])) continue;
        const Reading before = readings_[at];
        for (const Reading other : {Reading::recorded, Reading::inverted, Reading::by_votes}) {
          if (other == before) continue;
          readings_[at] = other;
          const double now = walk_all();
          if (now >= best) continue;
          best = now;
          branch = at;
          reading = other;
        }
        readings_[at] = before;
      }
      if (branch == blocks_.size()) break;
      readings_[branch] = reading;
    }
    walk_all();
  }

  // Arithmetic to which only a recorded branch leads: ptxas sinks it from before the branch to where it is used, so its
  // lines may have run more often than it, and the record knows better.
  [[nodiscard]] bool is_sunk(std::uint32_t block, const PtxWarp& warp) const {
    if (entries_[block] != 1 || has_effects(blocks_[block])) return false;
    for (std::uint32_t at = 0; at < blocks_.size(); ++at) {
      const bool leads = blocks_[at].is_conditional && (at + 1 == block || blocks_[at].target == block);
      if (leads && readings_[at] != Reading::by_votes)
        return warp.branches.contains(kernel_.instructions[blocks_[at].last()].ptx_line);
    }
    return false;
  }

  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<Distinct>& all() const { return all_; }
  [[nodiscard]] const WarpWalk& walk_of(const PtxWarp& warp) const {
    return std::find_if(all_.begin(), all_.end(), [&](const Distinct& one) { return *one.warp == warp; })->walk;
  }

 private:
  // What stays where the program has it: memory, tensor cores, barriers, exchanges between lanes.
  bool has_effects(const Block& block) const {
    for (std::uint32_t i = block.first; i < block.end; ++i) {
      const std::string_view base = kernel_.instructions[i].base();
      for (const std::string_view one :
           {"LD", "ST", "ATOM", "RED", "HMMA", "IMMA", "QMMA", "DMMA", "BAR", "SHFL", "VOTE"})
        if (base.starts_with(one)) return true;
    }
    return false;
  }

  // A branch that some warp's record knows, so that there is something to choose.
  bool is_recorded(const Block& block) const {
    if (!block.is_conditional) return false;
    const std::uint32_t line = kernel_.instructions[block.last()].ptx_line;
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Distinct& one) { return one.warp->branches.contains(line); });
  }

  // How far the outcomes of a branch are from what its two ways have votes for, as recorded or inverted: a way cannot
  // be gone more often than the block it leads to has run, nor less often if nothing else leads there.
  double misfit(std::uint32_t at, bool is_inverted) const {
    const std::uint32_t line = kernel_.instructions[blocks_[at].last()].ptx_line;
    double sum = 0;
    for (const Distinct& one : all_) {
      const auto recorded = one.warp->branches.find(line);
      if (recorded == one.warp->branches.end()) continue;
      double taken = 0, not_taken = 0;
      for (const OutcomeRun& run : recorded->second) {
        if (run.outcome != Outcome::not_taken) taken += run.times;
        if (run.outcome != Outcome::taken) not_taken += run.times;
      }
      taken /= one.votes.rounds(at);
      if (is_inverted) std::swap(taken, not_taken);
      if (blocks_[at].target) sum += one.times * misfit_of_way(one, *blocks_[at].target, taken);
      if (at + 1 < blocks_.size()) sum += one.times * misfit_of_way(one, at + 1, not_taken);
    }
    return sum;
  }

  double misfit_of_way(const Distinct& one, std::uint32_t to, double times) const {
    bool is_only_way = entries_[to] == 1;
    while (!one.votes.speaker_of(to)) {  // a jump of its own says nothing; what it leads to may
      const Block& block = blocks_[to];
      const bool leads_on = !block.is_conditional && (block.ending == Ending::falls || block.ending == Ending::jumps);
      const std::uint32_t next = block.ending == Ending::jumps && block.target ? *block.target : to + 1;
      if (!leads_on || next >= blocks_.size() || next <= to) return 0;
      to = next;
      is_only_way = is_only_way && entries_[to] == 1;
    }
    const double vote = *one.votes.alone(to);
    return is_only_way ? std::abs(times - vote) : std::max(0.0, times - vote);
  }

  double walk_all() {
    double sum = 0;
    for (Distinct& one : all_) {
      one.walk = walk_warp(kernel_, blocks_, readings_, *one.warp, one.votes);
      steps_ += one.walk.order.size();
      sum += one.times * one.distance();
    }
    return sum;
  }

  const SassKernel& kernel_;
  std::vector<Block> blocks_;
  std::vector<Distinct> all_{};
  static constexpr std::size_t most_steps = 30'000'000;  // of all walks: about a second
  std::size_t steps_ = 0;
  std::vector<Reading> readings_{};       // by block
  std::vector<std::uint32_t> entries_{};  // by block: ways that lead to it
};

void weigh(const Reader& reader, SassPaths& paths) {
  double apart = 0, whole = 0;
  std::map<std::uint32_t, Unmatched> by_block;
  for (const Distinct& warp : reader.all()) {
    for (std::size_t i = 0; i < warp.walk.heard.size(); ++i) {
      const Votes::Speaker& speaker = warp.votes.speakers()[i];
      const double copies = warp.votes.speaker_of(speaker.block)->copies;
      const bool is_sunk = warp.walk.heard[i] < speaker.count && reader.is_sunk(speaker.block, *warp.warp);
      const double difference = is_sunk ? 0 : std::abs(warp.walk.heard[i] - speaker.count);
      apart += warp.times * speaker.weight * difference;
      whole += warp.times * speaker.weight * (is_sunk ? warp.walk.heard[i] : speaker.count);
      if (difference == 0) continue;
      Unmatched& one = by_block[speaker.block];
      one.first = reader.blocks()[speaker.block].first;
      one.end = reader.blocks()[speaker.block].end;
      one.walked += warp.times * warp.walk.heard[i] / copies;
      one.voted += warp.times * speaker.count / copies;
    }
  }
  for (const auto& [block, one] : by_block) paths.unmatched.push_back(one);
  paths.unmatched_weight = whole > 0 ? apart / whole : 1;
  const auto weight = [](const Unmatched& one) { return std::abs(one.walked - one.voted) * (one.end - one.first); };
  std::stable_sort(paths.unmatched.begin(), paths.unmatched.end(),
                   [&](const Unmatched& a, const Unmatched& b) { return weight(a) > weight(b); });
}

// A PTX access may have become several instructions of a block: each has its part.
MemoryShapes shapes_of(const SassKernel& kernel, const std::vector<Block>& blocks, const PtxRun& run) {
  constexpr double bytes_per_sector = 32;
  const auto is_access = [](const SassInstruction& instruction) {
    const std::string_view base = instruction.base();
    return base.starts_with("LD") || base.starts_with("ST") || base.starts_with("ATOM") || base == "RED" ||
           base == "REDG";
  };
  MemoryShapes shapes(kernel.instructions.size());
  for (const Block& block : blocks) {
    std::map<std::uint32_t, int> parts;
    for (std::uint32_t i = block.first; i < block.end; ++i)
      if (is_access(kernel.instructions[i])) ++parts[kernel.instructions[i].ptx_line];
    for (std::uint32_t i = block.first; i < block.end; ++i) {
      const auto found = run.lines.find(kernel.instructions[i].ptx_line);
      if (!is_access(kernel.instructions[i]) || found == run.lines.end()) continue;
      const PtxLine& line = found->second;
      const double share = 1.0 / parts[kernel.instructions[i].ptx_line];
      const auto mean = [&](std::uint64_t sum, std::uint64_t requests) {
        return share * static_cast<double>(sum) / static_cast<double>(requests);
      };
      if (line.global_requests > 0) {
        shapes[i].wavefronts = mean(line.global_lines, line.global_requests);
        shapes[i].l2_bytes = bytes_per_sector * mean(line.global_sectors, line.global_requests);
      }
      if (line.shared_requests > 0) shapes[i].wavefronts = mean(line.shared_wavefronts, line.shared_requests);
    }
  }
  return shapes;
}

}  // namespace

Result<SassPaths> sass_paths(const SassKernel& kernel, const PtxRun& run) {
  const bool has_lines = std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                                     [](const SassInstruction& one) { return one.ptx_line != 0; });
  if (!has_lines)
    return Diagnostic{.message = fmt::format("the SASS of {} does not say which PTX it was made of", kernel.name),
                      .fix = "compile it with -lineinfo"};
  if (run.ctas.empty())
    return Diagnostic{.message = fmt::format("the run of {} recorded no paths", run.kernel), .fix = "set VGPU_PATHS=1"};
  Reader reader(kernel, run);
  reader.choose_readings();
  SassPaths paths;
  for (const PtxCta& cta : run.ctas) {
    CtaPath& path = paths.ctas.emplace_back();
    for (const PtxWarp& warp : cta.warps) {
      const WarpWalk& walk = reader.walk_of(warp);
      if (!walk.is_complete)
        return Diagnostic{.message = fmt::format("no way through the SASS of {} fits what its PTX did", kernel.name)};
      std::vector<std::uint32_t>& instructions = path.warps.emplace_back().instructions;
      for (const std::uint32_t at : walk.order)
        for (std::uint32_t i = reader.blocks()[at].first; i < reader.blocks()[at].end; ++i) instructions.push_back(i);
    }
  }
  paths.memory = shapes_of(kernel, reader.blocks(), run);
  weigh(reader, paths);
  return paths;
}

}  // namespace flashmoe::predict
