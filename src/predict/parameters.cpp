#include "predict/parameters.hpp"

#include <algorithm>
#include <array>

namespace flashmoe::predict {
namespace {

constexpr std::string_view huerta_1 = "Huerta et al., arXiv 2503.20481, table 1 and text (RTX A6000)";
constexpr std::string_view huerta_2 = "Huerta et al., arXiv 2503.20481, table 2 (RTX A6000)";
constexpr std::string_view accel_sim = "Accel-Sim's configuration of an RTX 3070: sfu 21, 8";
constexpr std::string_view latency_a100 = "RRZE-HPC/gpu-benches gpu-latency, A100: 205 clocks at 1410 MHz";
constexpr std::string_view latency_a40 = "RRZE-HPC/gpu-benches gpu-latency, A40: 250 clocks at 1740 MHz";
constexpr std::string_view latency_l40 = "RRZE-HPC/gpu-benches gpu-latency, L40: 274 clocks at 2490 MHz";
constexpr std::string_view latency_gh200 = "RRZE-HPC/gpu-benches gpu-latency, GH200: 280 clocks at 1980 MHz";
constexpr std::string_view dram_l40 = "RRZE-HPC/gpu-benches gpu-latency, L40: 246 to 251 ns";
constexpr std::string_view unverified{};

struct Family {
  std::string_view architecture;
  Fact global_latency_ns;
  Fact dram_latency_ns;
  Fact packed_half_results;
  // Where src/devices knows no share of L2: an assumption that every answer names.
  double assumed_l2_bytes_per_clock;
  double full_rate_tensor_interval;  // m16n8k16; 0: as with fp32 accumulation
};

constexpr std::array families{
    Family{"sm_80", {145.9, latency_a100}, {400, unverified}, {256, unverified}, 35, 0},
    Family{"sm_86", {143.9, latency_a40}, {250, unverified}, {128, unverified}, 17, 16},
    // An L4 has 24 slices of L2 for 58 SMs, an L40 48 for 142: the L40's 16 bytes, with more slices for each SM.
    Family{"sm_89", {109.9, latency_l40}, {250, dram_l40}, {128, unverified}, 20, 16},
    Family{"sm_90", {141.6, latency_gh200}, {400, unverified}, {256, unverified}, 37.5, 0},
    Family{"sm_100", {150, unverified}, {400, unverified}, {256, unverified}, 35, 0},
    Family{"sm_120", {120, unverified}, {250, unverified}, {128, unverified}, 16, 16},
};

// What was measured on one GPU of the Ampere generation stands for all: nobody has published it for each.
constexpr Parameters parameters_of(const Family& family) {
  return {.shared_latency = {24, huerta_2},
          .matrix_load_latency = {30, unverified},
          .shuffle_latency = {24, unverified},
          .special_latency = {25, unverified},
          .constant_latency = {29, huerta_2},
          .transcendental_latency = {22, accel_sim},
          .transcendental_queue = {2, unverified},
          .transcendental_sources = {6, unverified},
          .local_latency = {36, huerta_2},
          .global_latency_ns = family.global_latency_ns,
          .dram_latency_ns = family.dram_latency_ns,
          .shared_load_sources = {9, huerta_2},
          .global_load_sources = {11, huerta_2},
          .async_copy_sources = {13, huerta_2},
          .shared_store_sources = {10, huerta_2},
          .global_store_sources = {12, huerta_2},
          .store_register_sources = {2, huerta_2},
          .memory_queue = {5, huerta_1},
          .memory_interval = {2, huerta_1},
          .global_wavefronts = {2, unverified},
          .sm_l2_bytes_per_clock = {64, unverified},
          .uniform_interval = {2, unverified},
          .packed_half_results = family.packed_half_results,
          .barrier_latency = {16, unverified},
          .cta_gap = {300, unverified}};
}

constexpr std::array names{
    ParameterFact{"shared_latency", &Parameters::shared_latency},
    ParameterFact{"matrix_load_latency", &Parameters::matrix_load_latency},
    ParameterFact{"shuffle_latency", &Parameters::shuffle_latency},
    ParameterFact{"special_latency", &Parameters::special_latency},
    ParameterFact{"constant_latency", &Parameters::constant_latency},
    ParameterFact{"transcendental_latency", &Parameters::transcendental_latency},
    ParameterFact{"transcendental_queue", &Parameters::transcendental_queue},
    ParameterFact{"transcendental_sources", &Parameters::transcendental_sources},
    ParameterFact{"local_latency", &Parameters::local_latency},
    ParameterFact{"global_latency_ns", &Parameters::global_latency_ns},
    ParameterFact{"dram_latency_ns", &Parameters::dram_latency_ns},
    ParameterFact{"shared_load_sources", &Parameters::shared_load_sources},
    ParameterFact{"global_load_sources", &Parameters::global_load_sources},
    ParameterFact{"async_copy_sources", &Parameters::async_copy_sources},
    ParameterFact{"shared_store_sources", &Parameters::shared_store_sources},
    ParameterFact{"global_store_sources", &Parameters::global_store_sources},
    ParameterFact{"store_register_sources", &Parameters::store_register_sources},
    ParameterFact{"memory_queue", &Parameters::memory_queue},
    ParameterFact{"memory_interval", &Parameters::memory_interval},
    ParameterFact{"global_wavefronts", &Parameters::global_wavefronts},
    ParameterFact{"sm_l2_bytes_per_clock", &Parameters::sm_l2_bytes_per_clock},
    ParameterFact{"uniform_interval", &Parameters::uniform_interval},
    ParameterFact{"packed_half_results", &Parameters::packed_half_results},
    ParameterFact{"barrier_latency", &Parameters::barrier_latency},
    ParameterFact{"cta_gap", &Parameters::cta_gap},
};

}  // namespace

std::span<const ParameterFact> parameter_facts() {
  return names;
}

double Machine::interval(Kind kind) const {
  const PipeRates& rates = architecture.rates;
  switch (kind) {
    case Kind::fma:
      return architecture.issue_interval(rates.fp32_multiply_add);
    case Kind::fma_heavy:
      return architecture.issue_interval(rates.int32_multiply_add);
    case Kind::fp16:
      return 2 * architecture.issue_interval(parameters.packed_half_results);
    case Kind::fp64:
      return architecture.issue_interval(rates.fp64_multiply_add);
    case Kind::alu:
      return architecture.issue_interval(rates.int32_logic);
    case Kind::add:
      return architecture.issue_interval(rates.int32_add);
    case Kind::conversion:
      return architecture.issue_interval(rates.conversion);
    case Kind::transcendental:
      return architecture.issue_interval(rates.transcendental);
    case Kind::uniform:
      return parameters.uniform_interval.value;
    default:
      return 1;
  }
}

Result<Machine> machine_of(const Gpu& gpu) {
  auto architecture = find_architecture(std::string(gpu.architecture));
  if (!architecture) return architecture.error();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const Family& one) { return one.architecture == architecture->name; });
  if (family == families.end())
    return Diagnostic{.message = "nothing is known of the SMs of " + std::string(gpu.architecture)};
  if (!gpu.mma_sync_clocks.known() || !gpu.boost_clock_mhz.known())
    return Diagnostic{.message = "the tensor rate or the clock of " + std::string(gpu.name) + " is not known"};
  Machine machine{.architecture = *architecture, .parameters = parameters_of(*family)};
  machine.tensor_interval = gpu.mma_sync_clocks.value;
  machine.tensor_interval_full_rate = family->full_rate_tensor_interval > 0
                                          ? std::min(machine.tensor_interval, family->full_rate_tensor_interval)
                                          : machine.tensor_interval;
  const double clocks_per_ns = gpu.boost_clock_mhz.value / 1000;
  machine.global_latency = machine.parameters.global_latency_ns.value * clocks_per_ns;
  machine.dram_latency = machine.parameters.dram_latency_ns.value * clocks_per_ns;
  machine.l2_share_is_known = gpu.l2_bytes_per_clock_per_sm.known();
  machine.l2_bytes_per_clock =
      machine.l2_share_is_known ? gpu.l2_bytes_per_clock_per_sm.value : family->assumed_l2_bytes_per_clock;
  return machine;
}

}  // namespace flashmoe::predict
