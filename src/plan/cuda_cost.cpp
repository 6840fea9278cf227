#include "plan/cuda_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "plan/problem.hpp"

namespace flashmoe::plan {
namespace {

// Whole parts; what is left over counts as one more from this share of a part on, and before it in proportion.
double with_rest(double parts, double share) {
  const double whole = std::floor(parts);
  return whole + std::min((parts - whole) / share, 1.0);
}

// Rounds of `parts` in which something is done, at least one: what is left over after whole rounds takes a round of its
// own, but its first CTAs find the SMs that ended early, and run faster for having them to themselves.
double rounds(double parts, double round_share) {
  return parts <= 1 ? 1 : with_rest(parts, round_share);
}

}  // namespace

CudaWork::CudaWork(const fms_attention_problem& p)
    : rows(group_size(p) * p.q_len),
      group(group_size(p)),
      heads(p.batch * p.kv_heads),
      batch(p.batch),
      head_dim(p.head_dim),
      value_dim(p.value_dim),
      most_keys(p.kv_len),
      keys(visible_keys_per_row(p)),
      is_masked(plan::is_masked(p) && p.q_len > 1),
      total_rows(has(p, FMS_RAGGED_Q) ? group_size(p) * p.total_q : 0),
      io_bytes(2.0 * static_cast<double>(heads) * static_cast<double>(rows + p.kv_len) *
               static_cast<double>(p.head_dim + p.value_dim)) {
  if (p.window_left >= 0 && p.window_right >= 0) most_keys = std::min(most_keys, p.window_left + p.window_right + 1);
}

int64_t CudaWork::tiles(int32_t q_tile) const {
  const int64_t all = heads * divide_up(rows, q_tile);
  return total_rows == 0 ? all : std::min(all, heads / batch * (total_rows / q_tile + batch));
}

double room_for_states(const CudaWork& work, const PlannerFigures& gpu) {
  const double times = std::max(static_cast<double>(work.rows) / gpu.policy->short_prompt_rows - 1, 0.0);
  return work.io_bytes + std::min(work.io_bytes * times, gpu.l2_resident_bytes);
}

CudaCost::CudaCost(const CudaKernel& kernel, const CudaWork& work, const PlannerFigures& gpu)
    : gpu_(gpu), policy_(*gpu.policy), kernel_(kernel), work_(work), tiles_(work.tiles(kernel.q_tile)) {
  full_tiles_ =
      static_cast<double>(work.heads) * rounds(static_cast<double>(work.rows) / kernel.q_tile, policy_.tile_share);
  if (work.total_rows > 0) full_tiles_ = std::min(full_tiles_, static_cast<double>(tiles_));
  const int warps = kernel.threads / 32, row_tiles = kernel.q_tile / 16;  // a warp has one of these or two
  const int value_dim = kernel.value_dim != 0 ? kernel.value_dim : kernel.head_dim;
  const int key_tiles = kernel.kv_tile / 8, dim_steps = (kernel.head_dim + value_dim) / 16;
  const double products = 1.0 * row_tiles * key_tiles * dim_steps;
  const int share = warps < row_tiles ? 4 : std::bit_width(static_cast<unsigned>(row_tiles)) - 1;
  key_warps_ = std::max(warps / row_tiles, 1);
  block_alone_ = products / std::min(warps, gpu.pipes_per_sm) * gpu.product_clocks / policy_.loop_share[1];
  block_busy_ = products / gpu.pipes_per_sm * gpu.product_clocks / policy_.loop_share[share];
  block_bytes_ = 2.0 * kernel.kv_tile * static_cast<double>(work.head_dim + work.value_dim);
  // A tile computes for all its rows what any of them sees, and in the blocks where they differ it also masks.
  const double differing = work.is_masked ? static_cast<double>(std::min<int64_t>(kernel.q_tile, work.rows)) /
                                                static_cast<double>(work.group)
                                          : 0;
  const auto most_keys = static_cast<double>(work.most_keys);
  tile_keys_ = std::min(work.keys + differing / 2, most_keys);
  masked_keys_ = policy_.masked_share * differing;
  // So few rows read keys once: memory bounds them, and the CTAs that are left over draw all of its bandwidth.
  constexpr int64_t few_rows = 16;
  const bool has_few_rows = work.rows <= few_rows;
  const double unequal = std::clamp(most_keys / std::max(tile_keys_, 1.0) - 1, 0.0, 1.0);
  least_l2_bytes_per_clock_ = has_few_rows ? gpu.few_rows_l2_bytes_per_clock : gpu.shared_l2_bytes_per_clock;
  const double is_long =
      std::clamp((tile_keys_ - policy_.short_keys) / (policy_.long_keys - policy_.short_keys), 0.0, 1.0);
  const double equal_share = std::lerp(policy_.equal_wave_share, policy_.long_wave_share, is_long);
  wave_share_ = has_few_rows ? policy_.few_rows_wave_share : std::lerp(equal_share, 1.0, unequal);
}

double CudaCost::clocks(int64_t splits) const {
  const auto ways = static_cast<double>(splits), sms = static_cast<double>(gpu_.sm_count);
  const double ctas = full_tiles_ * ways, kv_tile = kernel_.kv_tile;
  // SMs without a CTA leave their share of L2 to the others.
  const double l2_bytes_per_clock =
      std::clamp(gpu_.shared_l2_bytes_per_clock * sms / std::min(ctas, sms), least_l2_bytes_per_clock_,
                 std::max(policy_.most_l2_bytes_per_clock, least_l2_bytes_per_clock_));
  double keys = tile_keys_, most_keys = static_cast<double>(work_.most_keys);
  double state_bytes = 0, moving_states = 0, merging = 0;
  if (splits > 1) {
    keys /= ways;
    most_keys /= ways;
    state_bytes = ctas * static_cast<double>(kernel_.split_bytes);
    // There and back, of all CTAs; beside it the one that merges waits for what it reads.
    moving_states = 2 * static_cast<double>(kernel_.split_bytes) / gpu_.few_rows_l2_bytes_per_clock;
    // Only rows that there are.
    const double read_bytes =
        static_cast<double>(kernel_.split_bytes) * std::min(static_cast<double>(work_.rows) / kernel_.q_tile, 1.0);
    merging = policy_.split_clocks + policy_.state_clocks * ways / key_warps_ + ways * read_bytes / l2_bytes_per_clock;
  }
  keys += masked_keys_;
  most_keys += masked_keys_;
  // A block that ends early is multiplied whole, and is a block for what it waits.
  const double block = with_rest(keys / kv_tile, policy_.block_share),
               waits = std::max(block, 1.0) * policy_.block_clocks;
  const double most = with_rest(most_keys / kv_tile, policy_.block_share),
               most_waits = std::max(most, 1.0) * policy_.block_clocks;
  const double waves = rounds(ctas / (sms * kernel_.ctas_per_sm), wave_share_);
  const double loading = block_bytes_ / l2_bytes_per_clock;
  const double block_alone = std::max(block_alone_, loading), block_busy = std::max(block_busy_, loading);
  // A CTA that has its SM to itself, the longest one beginning first; what an SM has to do in all; what DRAM has to
  // bring.
  const double alone = std::max(most * block_alone + most_waits, waves * (block * block_alone + waits));
  const double own = policy_.element_clocks * static_cast<double>(work_.head_dim + work_.value_dim);
  const double busy = rounds(ctas / sms, wave_share_) * (block * block_busy + moving_states + own);
  // What was computed just now is still in L2 as far as it fits; caches of keys and values are not. Only CTAs of
  // different keys ask DRAM for different bytes, and one SM can ask for a few times its share.
  const double footprint = work_.io_bytes + state_bytes;
  const double beyond_l2 = std::clamp(
      (footprint / gpu_.l2_resident_bytes - policy_.l2_ramp_begin) / (policy_.l2_ramp_end - policy_.l2_ramp_begin), 0.0,
      1.0);
  const double asking = 1 - std::exp(-policy_.lone_dram_share * static_cast<double>(work_.heads) * ways / sms);
  const double dram = beyond_l2 * (work_.io_bytes + 2 * state_bytes) / (gpu_.dram_bytes_per_clock * sms * asking);
  return policy_.fixed_clocks + waves * (policy_.cta_clocks + policy_.row_clocks * kernel_.q_tile) +
         std::max({alone, busy, dram}) + policy_.hidden_share * busy + merging;
}

double CudaCost::cost(int64_t splits) const {
  if (splits == 1) return clocks(1);
  // Of tiles that are not quite full, half the way: what is allocated jumps there.
  const double states = (static_cast<double>(tiles_) + full_tiles_) / 2 * static_cast<double>(splits);
  const double room = room_for_states(work_, gpu_);
  const double share = states * static_cast<double>(kernel_.split_bytes) / room;
  const double from = policy_.cheap_workspace_share, to = policy_.dear_workspace_share;
  return clocks(splits) * (1 + policy_.dear_workspace_gain * std::clamp((share - from) / (to - from), 0.0, 1.0));
}

}  // namespace flashmoe::plan
