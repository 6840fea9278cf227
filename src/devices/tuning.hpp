// What the planner is told of a GPU: its own figures in clocks of an SM, and for its architecture what our kernels are
// taken to cost there. No GPU has run these kernels: the policies are arithmetic on static analysis and on published
// latencies, and say so.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "devices/device.hpp"

namespace flashmoe {

struct TuningPolicy {
  std::string_view architecture;
  // Static tensor use of the main loops for tiles of 16, 32, 64 and 128 rows: the smaller a tile, the more instructions
  // beside each product. The last one is of 128 rows where each warp has 32. While nobody else is on their SM, warps
  // are taken to reach the second of these, whatever their tile.
  double loop_share[5];
  // Bytes an SM takes from L2 in a clock, of a GPU for which nobody has published it: with a few rows, which wait for
  // DRAM first; and with tiles of many rows on all SMs. Those without a CTA leave their share to the others, up to what
  // one SM can take.
  double few_rows_l2_bytes_per_clock = 32, shared_l2_bytes_per_clock = 32, most_l2_bytes_per_clock = 64;
  // Of the nominal DRAM bandwidth: 2.5 bytes a clock and SM on an L4, the figure its plans were made with.
  double dram_share = 0.985842265;
  // What a problem leaves of L2 to others: 32 million bytes on an L4 are its own. From a part of that on some of a
  // problem comes from DRAM, and from a multiple on all of it.
  double l2_share = 0.635783;
  double l2_ramp_begin = 0.25, l2_ramp_end = 3;
  // An SM that asks DRAM alone gets this many times its share of the bandwidth.
  double lone_dram_share = 4;
  // Work that something slower hides still takes power and ports: this share of it counts.
  double hidden_share = 0.1;
  // The launch.
  double fixed_clocks = 2200;
  // A CTA before its first and after its last block: the first loads' latency, and for each row of its tile loading the
  // query and storing the result.
  double cta_clocks = 270;
  double row_clocks = 8.3;
  // What a CTA holds of its SM beside its blocks, for each element of a row of keys and of values: other CTAs do not
  // hide it, so that many small tiles are worse than they look one by one.
  double element_clocks = 10;
  // A block of keys: its barrier and what of a load's latency is not hidden.
  double block_clocks = 250;
  // This and the splits' figures are such that estimates for an L4 are mostly within a fifth of what `cudadent predict`
  // says of the same plans (prompts of 64 to 4096 tokens, every tile, up to 6 splits). Masking: as if a tile saw this
  // many keys more for each of its rows that see different ones.
  double masked_share = 0.3;
  // Splits: storing a state, the fence and the counter; then each state once more, beside reading it. One CTA of a tile
  // reads them all.
  double split_clocks = 800;
  double state_clocks = 150;
  // A workspace costs nothing up to the first of these parts of what the problem itself moves, or, of prompts of more
  // rows than that, as many times as much, up to all of L2 beside it. From the second on, short of a quarter because
  // rows beyond whole tiles count in proportion, a split has to gain this much.
  double cheap_workspace_share = 0.1, dear_workspace_share = 0.22, dear_workspace_gain = 0.3;
  double short_prompt_rows = 128;
  // CTAs beyond whole waves take as long as a wave from this share of one on, rows beyond whole tiles as a tile and
  // keys beyond whole blocks as a block from theirs on: a step would make the plan a matter of one row more or less.
  // Of waves the first is for a few rows, the second for tiles that all see as many keys, of which none ends early to
  // make room; from these keys on gradually the third: a short CTA hides in what another of its SM waits for, a long
  // one does not. Tiles that see different keys need no such share: short ones fill the last wave.
  double few_rows_wave_share = 0.3, equal_wave_share = 0.3, long_wave_share = 0.3;
  double short_keys = 512, long_keys = 1024;
  double tile_share = 0.5, block_share = 0.65;
  // What a larger tile, or a split, has to gain to be chosen.
  double least_gain = 0.05;
  // With this many tiles for each SM the last wave's idle SMs do not matter, and keys are not split.
  int tiles_without_tail = 8;
  std::string_view source{};
};

[[nodiscard]] std::span<const TuningPolicy> all_tuning_policies();

// What a driver says of its device. 0 and "": it does not say.
struct DriverAnswers {
  std::string_view name{};  // "NVIDIA L4"; a virtual one's ends in " (virtual)"
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  double clock_mhz = 0, memory_clock_mhz = 0;
  double memory_bus_bits = 0;
  double l2_bytes = 0;
};

struct PlannerFigures {
  const TuningPolicy* policy = nullptr;
  std::int32_t sm_count = 0;
  int pipes_per_sm = 0;                    // of the tensor cores
  double product_clocks = 0;               // for which a product of 16 x 8 x 16 holds one of them
  double dram_bytes_per_clock = 0;         // an SM's share while all ask
  double few_rows_l2_bytes_per_clock = 0;  // an SM's
  double shared_l2_bytes_per_clock = 0;    // an SM's share while all ask
  double l2_resident_bytes = 0;            // problems up to this size are taken to be in L2
};

// The device's own answers; what a driver does not say comes from the table: of the GPU with that name, else of one of
// the newest architecture that is not newer than the device's, a GeForce for a GeForce.
[[nodiscard]] PlannerFigures planner_figures(const DriverAnswers& device);
// What the driver of this GPU says.
[[nodiscard]] DriverAnswers driver_answers(const Gpu& gpu);

}  // namespace flashmoe
