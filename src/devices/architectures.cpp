// The table of architectures, and who says what. Pipe rates were read in transcripts of NVIDIA's tables; what no
// transcript shows has no source.
#include <array>

#include "devices/device.hpp"

namespace flashmoe {
namespace {

constexpr int KB = 1024;

// CTAs, shared memory sizes, granularities and barriers per SM stand in cuda_occupancy.h; warps per SM, the opt-in
// limit and constant memory in the architecture traits of NVIDIA's C++ core libraries; the sum of L1 and shared memory
// in the CUDA C++ Programming Guide, "unified data cache".
constexpr std::string_view limits_source =
    "CUDA 13.0 cuda_occupancy.h; NVIDIA/cccl libcudacxx/include/cuda/__device/arch_traits.h; CUDA C++ Programming "
    "Guide, "
    "compute capabilities";

constexpr std::string_view guide_11 = "CUDA C++ Programming Guide 11, throughput of native arithmetic instructions";
constexpr std::string_view guide_12 = "CUDA C++ Programming Guide 12.6, throughput of native arithmetic instructions";
constexpr std::string_view guide_13 =
    "CUDA C++ Best Practices Guide 13.4, throughput of native arithmetic instructions";
constexpr std::string_view ratio_13 = "CUDA Programming Guide 13.4, table 30: ratio of FP32 to FP64";
constexpr std::string_view flash_3 = "FlashAttention-3 (arXiv 2407.08608): 16 operations a clock and SM";
constexpr std::string_view flash_4 = "FlashAttention-4 (arXiv 2603.05451): 16 operations and 128 bytes a clock and SM";
constexpr std::string_view xla = "openxla/xla cuda_core_info_table.cc, from the CUDA C++ Best Practices Guide 13.0";
constexpr std::string_view banks = "CUDA C++ Programming Guide: 32 banks of 4 bytes a clock";
constexpr std::string_view unverified{};

// Columns 8.0 to 9.0 differ in two rows only.
constexpr PipeRates rates_of_8_and_9(double fp32, Fact fp64, std::string_view transcendental) {
  return {.fp32_multiply_add = {fp32, guide_12},
          .fp64_multiply_add = fp64,
          .int32_add = {64, guide_12},
          .int32_multiply_add = {64, unverified},
          .int32_logic = {64, guide_12},
          .transcendental = {16, transcendental},
          .conversion = {16, guide_12},
          .shuffle = {32, guide_12},
          .shared_bytes = {128, banks}};
}

constexpr PipeRates rates_10_0{.fp32_multiply_add = {128, xla},
                               .fp64_multiply_add = {64, guide_13},
                               .int32_add = {64, xla},
                               .int32_multiply_add = {64, unverified},
                               .int32_logic = {64, unverified},
                               .transcendental = {16, flash_4},
                               .conversion = {16, unverified},
                               .shuffle = {32, unverified},
                               .shared_bytes = {128, flash_4}};

constexpr PipeRates rates_12_0{.fp32_multiply_add = {128, guide_13},
                               .fp64_multiply_add = {2, guide_13},
                               .int32_add = {128, guide_13},
                               .int32_multiply_add = {64, guide_13},
                               .int32_logic = {64, guide_13},
                               .transcendental = {16, unverified},
                               .conversion = {16, guide_13},  // but 2 from float to 32-bit integer
                               .shuffle = {32, guide_13},
                               .shared_bytes = {128, banks}};

struct Sizes {
  int warps, ctas, shared_kb, l1_and_shared_kb, barriers;
};

constexpr Architecture architecture(std::string_view name, int major, int minor, const Sizes& per_sm,
                                    const PipeRates& rates) {
  return {.name = name,
          .compute_major = major,
          .compute_minor = minor,
          .max_warps_per_sm = per_sm.warps,
          .max_ctas_per_sm = per_sm.ctas,
          .shared_bytes_per_sm = per_sm.shared_kb * KB,
          .shared_bytes_per_cta_optin = (per_sm.shared_kb - 1) * KB,
          .l1_and_shared_bytes_per_sm = per_sm.l1_and_shared_kb * KB,
          .barriers_per_sm = per_sm.barriers,
          .source = limits_source,
          .rates = rates};
}

constexpr std::array architectures{
    architecture("sm_80", 8, 0, {64, 32, 164, 192, 0}, rates_of_8_and_9(64, {32, guide_11}, guide_11)),
    architecture("sm_86", 8, 6, {48, 16, 100, 128, 0}, rates_of_8_and_9(128, {2, guide_11}, guide_11)),
    architecture("sm_89", 8, 9, {48, 24, 100, 128, 0}, rates_of_8_and_9(128, {2, ratio_13}, unverified)),
    architecture("sm_90", 9, 0, {64, 32, 228, 256, 64}, rates_of_8_and_9(128, {64, ratio_13}, flash_3)),
    architecture("sm_100", 10, 0, {64, 32, 228, 256, 64}, rates_10_0),
    // The guide's tables of CUDA 12.9 say 32 CTAs, those of 13.4 and cuda_occupancy.h 24.
    architecture("sm_120", 12, 0, {48, 24, 100, 128, 24}, rates_12_0),
};

constexpr std::array rate_names{
    RateFact{"fp32_multiply_add", &PipeRates::fp32_multiply_add},
    RateFact{"fp64_multiply_add", &PipeRates::fp64_multiply_add},
    RateFact{"int32_add", &PipeRates::int32_add},
    RateFact{"int32_multiply_add", &PipeRates::int32_multiply_add},
    RateFact{"int32_logic", &PipeRates::int32_logic},
    RateFact{"transcendental", &PipeRates::transcendental},
    RateFact{"conversion", &PipeRates::conversion},
    RateFact{"shuffle", &PipeRates::shuffle},
    RateFact{"shared_bytes", &PipeRates::shared_bytes},
};

}  // namespace

std::span<const Architecture> all_architectures() {
  return architectures;
}
std::span<const RateFact> rate_facts() {
  return rate_names;
}

}  // namespace flashmoe
