#include "devices/device.hpp"

#include <fmt/format.h>

#include <array>

#include "support/json.hpp"

namespace flashmoe {
namespace {

constexpr int KB = 1024;

// CTAs, shared memory sizes, granularities and barriers per SM stand in cuda_occupancy.h; warps per SM and the
// opt-in limit stand in the architecture traits of NVIDIA's C++ core libraries.
constexpr std::string_view architecture_source =
    "CUDA 13.0 cuda_occupancy.h; NVIDIA/cccl libcudacxx/include/cuda/__device/arch_traits.h";

constexpr ArchitectureLimits limits(std::string_view name, int major, int minor, int warps, int ctas, int shared_kb,
                                    int barriers) {
  return {.name = name,
          .compute_major = major,
          .compute_minor = minor,
          .max_warps_per_sm = warps,
          .max_ctas_per_sm = ctas,
          .shared_bytes_per_sm = shared_kb * KB,
          .shared_bytes_per_cta_optin = (shared_kb - 1) * KB,
          .barriers_per_sm = barriers,
          .source = architecture_source};
}

constexpr std::array architectures{
    limits("sm_80", 8, 0, 64, 32, 164, 0),    limits("sm_86", 8, 6, 48, 16, 100, 0),
    limits("sm_89", 8, 9, 48, 24, 100, 0),    limits("sm_90", 9, 0, 64, 32, 228, 64),
    limits("sm_100", 10, 0, 64, 32, 228, 64), limits("sm_120", 12, 0, 48, 24, 100, 24),
};

constexpr std::string_view l4_report = "an L4's own Nsight Compute report (GOATnote-Inc/periodicdent42)";
constexpr std::string_view l4_page = "specification table, fpsbench.com/compare/gpu/nvidia-l4-vs-nvidia-tesla-m40";
constexpr std::string_view l40s_page = "NVIDIA's L40S table as printed at mullet.se/product.html?product_id=355414";
constexpr std::string_view l40s_clock = "specification table, itcreations.com/nvidia-gpu/nvidia-l40s-gpu-accelerator";
constexpr std::string_view ada_paper =
    "summary of the Ada whitepaper, mobylak.com/nvidia-reveals-ada-lovelace-gpu-secrets-extreme-transistor-counts-at-"
    "high-clocks";
constexpr std::string_view a100_page =
    "launch report, fudzilla.com/news/ai/50832-nvidia-unveils-the-a100-tensor-core-gpu";
constexpr std::string_view a100_paper =
    "NVIDIA's Ampere description as quoted at ggangliu.cn/2023/06/25/nvidia-ampere-"
    "architecture.html";
constexpr std::string_view h100_page =
    "NVIDIA's H100 SXM table as printed at archive-lib.hpctech.co.jp/gpuproduct/"
    "nvidia-h100.html";
constexpr std::string_view rate_1024 = "arithmetic: SMs x 512 FMA x boost clock";
constexpr std::string_view rate_2048 = "arithmetic: SMs x 1024 FMA x boost clock";
constexpr std::string_view memory_table = "table of memory sizes, calwoo.github.io/notes, \"NVIDIA GPU Hardware\"";
constexpr std::string_view h100_memory = "table of GPUs, inferenceengineering.tech/cheat-sheets/hardware";
constexpr std::string_view a100_memory = "glennklockwood.com/garden/processors/A100: ten 512-bit controllers";
constexpr std::string_view unverified{};

constexpr std::array gpus{
    Gpu{.id = "l4",
        .name = "NVIDIA L4",
        .architecture = "sm_89",
        .sm_count = {58, l4_report},
        .boost_clock_mhz = {2040, l4_page},
        .dram_gb_per_s = {300, l4_page},
        .l2_mb = {48, l4_page},
        .fp16_tensor_tflops = {121, rate_1024},
        .board_watts = {72, l4_page},
        .memory_gb = {24, l4_page},
        .memory_bus_bits = {192, l4_page}},
    Gpu{.id = "l40s",
        .name = "NVIDIA L40S",
        .architecture = "sm_89",
        .sm_count = {142, l40s_page},
        .boost_clock_mhz = {2520, l40s_clock},
        .dram_gb_per_s = {864, l40s_page},
        .l2_mb = {96, unverified},  // published tables say 48 or 96
        .fp16_tensor_tflops = {362, l40s_page},
        .board_watts = {350, l40s_page},
        .memory_gb = {48, memory_table},
        .memory_bus_bits = {384, unverified}},
    Gpu{.id = "rtx4090",
        .name = "NVIDIA GeForce RTX 4090",
        .architecture = "sm_89",
        .sm_count = {128, ada_paper},
        .boost_clock_mhz = {2520, ada_paper},
        .dram_gb_per_s = {1008, ada_paper},
        .l2_mb = {72, unverified},  // 96 is the full chip
        .fp16_tensor_tflops = {165, unverified},
        .board_watts = {450, ada_paper},
        .memory_gb = {24, memory_table},
        .memory_bus_bits = {384, unverified}},
    Gpu{.id = "a100",
        .name = "NVIDIA A100 40GB SXM",
        .architecture = "sm_80",
        .sm_count = {108, a100_page},
        .boost_clock_mhz = {1410, a100_page},
        .dram_gb_per_s = {1555, a100_paper},
        .l2_mb = {40, a100_page},
        .fp16_tensor_tflops = {312, rate_2048},
        .board_watts = {400, a100_page},
        .memory_gb = {40, memory_table},
        .memory_bus_bits = {5120, a100_memory}},
    Gpu{.id = "h100",
        .name = "NVIDIA H100 SXM",
        .architecture = "sm_90",
        .sm_count = {132, h100_page},
        .boost_clock_mhz = {1830, unverified},  // what 989 TFLOPS imply; 1980 is the highest clock
        .dram_gb_per_s = {3350, h100_page},
        .l2_mb = {50, h100_page},
        .fp16_tensor_tflops = {989, h100_page},
        .board_watts = {700, h100_page},
        .memory_gb = {80, h100_memory},
        .memory_bus_bits = {5120, unverified}},
};

Json fact_json(const Fact& fact) {
  return {{"value", fact.value}, {"source", fact.verified() ? std::string(fact.source) : std::string("unverified")}};
}

template <class T>
std::string names_of(std::span<const T> all, std::string_view T::*name) {
  std::string names;
  for (const T& one : all) names += (names.empty() ? "" : ", ") + std::string(one.*name);
  return names;
}

}  // namespace

std::span<const Gpu> all_gpus() {
  return gpus;
}
std::span<const ArchitectureLimits> all_architectures() {
  return architectures;
}

Result<Gpu> find_gpu(const std::string& id) {
  for (const Gpu& gpu : gpus)
    if (gpu.id == id) return gpu;
  return Diagnostic{.message = fmt::format("unknown GPU \"{}\"; known are {}", id, names_of(all_gpus(), &Gpu::id)),
                    .fix = "use one of them, as in: device = \"l4\""};
}

Result<ArchitectureLimits> find_architecture(const std::string& name) {
  // "sm_90a" has the limits of sm_90: the letter stands for instructions.
  std::string plain = name;
  if (!plain.empty() && (plain.back() == 'a' || plain.back() == 'f')) plain.pop_back();
  for (const ArchitectureLimits& one : architectures)
    if (one.name == plain) return one;
  return Diagnostic{.message = fmt::format("unknown architecture \"{}\"; known are {}", name,
                                           names_of(all_architectures(), &ArchitectureLimits::name)),
                    .fix = "use one of them, as in: architectures = [\"sm_89\"]"};
}

Json to_json(const Gpu& gpu) {
  return {{"id", gpu.id},
          {"name", gpu.name},
          {"architecture", gpu.architecture},
          {"sm_count", fact_json(gpu.sm_count)},
          {"boost_clock_mhz", fact_json(gpu.boost_clock_mhz)},
          {"dram_gb_per_s", fact_json(gpu.dram_gb_per_s)},
          {"l2_mb", fact_json(gpu.l2_mb)},
          {"fp16_tensor_tflops", fact_json(gpu.fp16_tensor_tflops)},
          {"board_watts", fact_json(gpu.board_watts)},
          {"memory_gb", fact_json(gpu.memory_gb)},
          {"memory_bus_bits", fact_json(gpu.memory_bus_bits)}};
}

}  // namespace flashmoe
