// What the simulation knows of a GPU, each value with its source. Nothing here was fitted to a kernel. Rates of pipes
// are not here: they are those of src/devices.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "devices/device.hpp"
#include "predict/kinds.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

// Cycles of the SM clock. A Fact without a source is printed as unverified.
struct Parameters {
  Fact shared_latency{};       // from the last wavefront to the result: LDS, ATOMS
  Fact matrix_load_latency{};  // LDSM
  Fact shuffle_latency{};
  Fact special_latency{};  // S2R
  Fact constant_latency{};
  Fact transcendental_latency{};
  Fact transcendental_queue{};    // instructions that wait for the pipe without holding the scheduler
  Fact transcendental_sources{};  // until its sources have been read
  Fact local_latency{};           // LDL that hits in L1
  Fact global_latency_ns{};       // L2 hit, as nanoseconds: the L2 has a clock of its own
  Fact memory_sources{};          // from the start of a memory instruction until its sources have been read
  Fact memory_queue{};            // memory instructions waiting in a sub-partition
  Fact memory_interval{};         // a sub-partition hands one on per so many cycles
  Fact global_least_wavefronts{};
  Fact barrier_latency{};  // from the last arrival
  Fact cta_gap{};          // from the end of a CTA to the first instruction of its successor
  Fact dram_latency_ns{};
};
struct ParameterFact {
  std::string_view name;
  Fact Parameters::*fact;
};
[[nodiscard]] std::span<const ParameterFact> parameter_facts();

// One SM of a GPU, as numbers.
struct Machine {
  Architecture architecture{};
  Parameters parameters{};
  double tensor_interval = 0;       // m16n8k16, fp32 accumulation
  double tensor_interval_fp16 = 0;  // the same with fp16 accumulation, and other types at full rate
  double global_latency = 0;
  double l2_bytes_per_clock = 0;  // this SM's share while all SMs read
  bool l2_share_is_known = false;
  bool validated = false;  // its architecture was held against published measurements

  // Cycles for which an instruction of this kind holds its pipe of a sub-partition.
  [[nodiscard]] double interval(Kind kind) const;
};

[[nodiscard]] Result<Machine> machine_of(const Gpu& gpu);

}  // namespace flashmoe::predict
