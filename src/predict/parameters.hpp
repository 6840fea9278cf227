// What the simulation knows of a GPU beside the rates of src/devices, each value with its source. Nothing was fitted.
#pragma once

#include <span>
#include <string_view>

#include "devices/device.hpp"
#include "predict/kinds.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

// Cycles of the SM clock where the name says nothing else. Without a source: unverified, and printed so.
struct Parameters {
  Fact shared_latency{};       // LDS: from its last wavefront to the result
  Fact matrix_load_latency{};  // LDSM: the same
  Fact shuffle_latency{};
  Fact special_latency{};  // S2R and its like
  Fact constant_latency{};
  Fact transcendental_latency{};  // and of conversions: from the start in the pipe
  Fact transcendental_queue{};    // instructions between issue and the end of their turn in the pipe
  Fact transcendental_sources{};  // from the start until the sources were read
  Fact local_latency{};           // LDL that hits in L1
  Fact global_latency_ns{};       // load that hits in L2; its clock is not the SM's
  Fact dram_latency_ns{};
  Fact shared_load_sources{};  // until the sources were read, of LDS, LDSM, SHFL
  Fact global_load_sources{};
  Fact async_copy_sources{};
  Fact shared_store_sources{};  // and per register stored:
  Fact global_store_sources{};
  Fact store_register_sources{};
  Fact memory_queue{};           // memory instructions that wait in a sub-partition
  Fact memory_interval{};        // a sub-partition hands on one in so many cycles
  Fact global_wavefronts{};      // the least that a global access holds the port for
  Fact sm_l2_bytes_per_clock{};  // the most that one SM takes from L2
  Fact uniform_interval{};
  Fact packed_half_results{};  // a clock and SM: halves, two in an instruction's lane
  Fact barrier_latency{};      // from the last arrival
  Fact cta_gap{};              // from the end of a CTA to the start of its successor
};
struct ParameterFact {
  std::string_view name;
  Fact Parameters::*fact;
};
[[nodiscard]] std::span<const ParameterFact> parameter_facts();

// One SM of a GPU.
struct Machine {
  Architecture architecture{};
  Parameters parameters{};
  double tensor_interval = 0;            // m16n8k16 with fp32 accumulation, in a sub-partition
  double tensor_interval_full_rate = 0;  // the same with fp16 accumulation: GeForce cards do that twice as fast
  double global_latency = 0;
  double dram_latency = 0;
  double l2_bytes_per_clock = 0;  // the SM's share while all SMs read
  bool l2_share_is_known = false;

  // Cycles for which an instruction of this kind holds its pipe; not for tensor instructions, which have sizes.
  [[nodiscard]] double interval(Kind kind) const;
};

[[nodiscard]] Result<Machine> machine_of(const Gpu& gpu);

}  // namespace flashmoe::predict
