// The table of GPUs, and who says what. What a card's own driver says comes first: its sizes and clocks as people have
// published them with deviceQuery, nvidia-smi or a compiler's description of the device; then NVIDIA's data sheets and
// white papers. Values that only collections of specifications print have no source.
#include <array>

#include "devices/device.hpp"

namespace flashmoe {
namespace {

constexpr std::string_view l4_query = "deviceQuery of an L4 (github thamada/nvidia-smi, gls/L4_deviceQuery.py)";
constexpr std::string_view l4_smi = "nvidia-smi of an L4 (github thamada/nvidia-smi, gls/L4_smi.py)";
constexpr std::string_view l4_report =
    "an L4's own Nsight Compute report, clocks locked to base (github GOATnote-Inc/periodicdent42)";
constexpr std::string_view l4_sheet = "NVIDIA's L4 data sheet: 242 TFLOPS with sparsity, half of it without";
constexpr std::string_view l40s_query = "deviceQuery of an L40S (github thamada/nvidia-smi, nvsim/L40S_deviceQuery.py)";
constexpr std::string_view l40s_smi = "nvidia-smi of an L40S (github thamada/nvidia-smi, nvsim/L40S_smi.py)";
constexpr std::string_view l40s_sheet = "NVIDIA's L40S table as printed at mullet.se/product.html?product_id=355414";
constexpr std::string_view l40_l2 =
    "RRZE-HPC/gpu-benches gpu-l2-cache/l40.txt, the same chip: 5200 GB/s / (142 SMs x 2.49 GHz)";
constexpr std::string_view rtx4090_query =
    "deviceQuery of an RTX 4090 (github thamada/nvidia-smi, gls/RTX4090_deviceQuery.py)";
constexpr std::string_view rtx4090_smi =
    "nvidia-smi of an RTX 4090 (github thamada/nvidia-smi, package/RTX4090_smi.py)";
constexpr std::string_view ada_paper = "NVIDIA Ada GPU architecture white paper, appendix A: 165.2 TFLOPS";
constexpr std::string_view a10_query = "deviceQuery of an A10, published by two owners";
constexpr std::string_view a10_smi = "nvidia-smi of an A10, published by nine owners";
constexpr std::string_view a10_sheet = "NVIDIA A10 data sheet: 125 TFLOPS, 250 with sparsity";
constexpr std::string_view a100_driver =
    "an A100-SXM4-40GB's driver (openxla/xla target_config/specs/a100_sxm_40.txtpb)";
constexpr std::string_view a100_smi = "nvidia-smi of an A100-SXM4-40GB, published by ten owners";
constexpr std::string_view a100_paper = "NVIDIA A100 white paper: 4 x 256 FMA a clock and SM";
constexpr std::string_view a100_l2 = "RRZE-HPC/gpu-benches gpu-l2-cache/a100_80.txt: 5400 GB/s / (108 SMs x 1.41 GHz)";
constexpr std::string_view h100_driver = "an H100 80GB HBM3's driver (openxla/xla target_config/specs/h100_sxm.txtpb)";
constexpr std::string_view h100_smi = "nvidia-smi of an H100 (github thamada/nvidia-smi, nvsim/H100SXMx8_smi.py)";
constexpr std::string_view h100_paper = "NVIDIA H100 white paper, table 3: 4 x 512 FMA a clock and SM at 1830 MHz";
constexpr std::string_view h100_mma =
    "4 clocks at the published peak / 62.9 % that mma.sync reaches of it (arXiv 2402.13499, section 6.2)";
constexpr std::string_view h200_l2 =
    "RRZE-HPC/gpu-benches gpu-l2-cache/h200.txt, the same chip: 9800 GB/s / (132 SMs x 1.98 GHz)";
constexpr std::string_view b200_driver = "a B200's driver (openxla/xla target_config/specs/b200.txtpb)";
constexpr std::string_view b200_smi = "nvidia-smi of a B200: 183359 MiB, 1000 W";
constexpr std::string_view b200_peak = "FlashAttention-4 (arXiv 2603.05451): 2.25 PFLOPS at 1850 MHz";
constexpr std::string_view rtx5090_query = "deviceQuery of an RTX 5090, published by three owners";
constexpr std::string_view rtx5090_smi = "nvidia-smi of an RTX 5090, published by ten owners";
constexpr std::string_view blackwell_paper = "NVIDIA RTX Blackwell GPU architecture white paper, table 3: 209.5 TFLOPS";
constexpr std::string_view bus_arithmetic = "arithmetic: 2 x memory clock x bus width";
constexpr std::string_view rate_arithmetic =
    "arithmetic: 4096 FLOP x 4 sub-partitions x SMs x clock / published TFLOPS";
constexpr std::string_view unverified{};

// In GB/s, from what the driver says of clock and bus.
constexpr Fact bandwidth(double memory_clock_mhz, double bus_bits) {
  return {2 * memory_clock_mhz * bus_bits / 8 / 1000, bus_arithmetic};
}

constexpr std::array gpus{
    Gpu{.id = "l4",
        .name = "NVIDIA L4",
        .architecture = "sm_89",
        .sm_count = {58, l4_query},
        .boost_clock_mhz = {2040, l4_query},
        .base_clock_mhz = {795, l4_report},
        .tensor_clock_mhz = {2040, l4_query},
        .memory_clock_mhz = {6251, l4_query},
        .memory_bus_bits = {192, l4_query},
        .dram_gb_per_s = bandwidth(6251, 192),
        .l2_bytes = {50331648, l4_query},
        .fp16_tensor_tflops = {121, l4_sheet},
        .mma_sync_clocks = {16, rate_arithmetic},
        .board_watts = {72, l4_smi},
        .memory_gb = {24, l4_smi}},
    Gpu{.id = "l40s",
        .name = "NVIDIA L40S",
        .architecture = "sm_89",
        .sm_count = {142, l40s_query},
        .boost_clock_mhz = {2520, l40s_query},
        .base_clock_mhz = {1110, unverified},
        .tensor_clock_mhz = {2520, l40s_query},
        .memory_clock_mhz = {9001, l40s_query},
        .memory_bus_bits = {384, l40s_query},
        .dram_gb_per_s = bandwidth(9001, 384),
        .l2_bytes = {100663296, l40s_query},
        .l2_bytes_per_clock_per_sm = {14.7, l40_l2},
        .fp16_tensor_tflops = {362, l40s_sheet},
        .mma_sync_clocks = {16, rate_arithmetic},
        .board_watts = {350, l40s_smi},
        .memory_gb = {48, l40s_smi}},
    Gpu{.id = "rtx4090",
        .name = "NVIDIA GeForce RTX 4090",
        .architecture = "sm_89",
        .sm_count = {128, rtx4090_query},
        .boost_clock_mhz = {2520, rtx4090_query},
        .base_clock_mhz = {2235, unverified},
        .tensor_clock_mhz = {2520, rtx4090_query},
        .memory_clock_mhz = {10501, rtx4090_query},
        .memory_bus_bits = {384, rtx4090_query},
        .dram_gb_per_s = bandwidth(10501, 384),
        .l2_bytes = {75497472, rtx4090_query},
        .l2_bytes_per_clock_per_sm = {14.7, unverified},  // the L40's, the same chip
        .fp16_tensor_tflops = {165.2, ada_paper},
        .mma_sync_clocks = {32, rate_arithmetic},
        .board_watts = {450, rtx4090_smi},
        .memory_gb = {24, rtx4090_smi}},
    Gpu{.id = "a10",
        .name = "NVIDIA A10",
        .architecture = "sm_86",
        .sm_count = {72, a10_query},
        .boost_clock_mhz = {1695, a10_query},
        .base_clock_mhz = {885, unverified},
        .tensor_clock_mhz = {1695, a10_query},
        .memory_clock_mhz = {6251, a10_query},
        .memory_bus_bits = {384, a10_query},
        .dram_gb_per_s = bandwidth(6251, 384),
        .l2_bytes = {6291456, a10_query},
        .l2_bytes_per_clock_per_sm = {17, unverified},  // an A40's, the same chip: 2490 GB/s / (84 SMs x 1.74 GHz)
        .fp16_tensor_tflops = {125, a10_sheet},
        .mma_sync_clocks = {16, rate_arithmetic},
        .board_watts = {150, a10_smi},
        .memory_gb = {24, a10_smi}},
    Gpu{.id = "a100",
        .name = "NVIDIA A100-SXM4-40GB",
        .architecture = "sm_80",
        .sm_count = {108, a100_driver},
        .boost_clock_mhz = {1410, a100_driver},
        .base_clock_mhz = {1095, unverified},
        .tensor_clock_mhz = {1410, a100_driver},
        .memory_clock_mhz = {1215, a100_driver},
        .memory_bus_bits = {5120, a100_driver},
        .dram_gb_per_s = bandwidth(1215, 5120),
        .l2_bytes = {41943040, a100_driver},
        .l2_bytes_per_clock_per_sm = {35.5, a100_l2},
        .fp16_tensor_tflops = {312, a100_paper},
        .mma_sync_clocks = {8, rate_arithmetic},
        .board_watts = {400, a100_smi},
        .memory_gb = {40, a100_smi}},
    Gpu{.id = "h100",
        .name = "NVIDIA H100 80GB HBM3",
        .architecture = "sm_90",
        .sm_count = {132, h100_driver},
        .boost_clock_mhz = {1980, h100_driver},
        .base_clock_mhz = {1590, unverified},
        .tensor_clock_mhz = {1830, h100_paper},
        .memory_clock_mhz = {2619, h100_driver},
        .memory_bus_bits = {5120, h100_driver},
        .dram_gb_per_s = bandwidth(2619, 5120),
        .l2_bytes = {52428800, h100_driver},
        .l2_bytes_per_clock_per_sm = {37.5, h200_l2},
        .fp16_tensor_tflops = {989, h100_paper},
        .mma_sync_clocks = {6.4, h100_mma},  // the peak is wgmma's
        .board_watts = {700, h100_smi},
        .memory_gb = {80, h100_smi}},
    Gpu{.id = "b200",
        .name = "NVIDIA B200",
        .architecture = "sm_100",
        .sm_count = {148, b200_driver},
        .boost_clock_mhz = {1965, b200_driver},
        .base_clock_mhz = {1665, unverified},
        .tensor_clock_mhz = {1850, b200_peak},
        .memory_clock_mhz = {3996, b200_driver},
        .memory_bus_bits = {7680, b200_driver},
        .dram_gb_per_s = bandwidth(3996, 7680),
        .l2_bytes = {132644864, b200_driver},
        .fp16_tensor_tflops = {2250, b200_peak},
        // The peak is tcgen05's. An A100's rate; FlashAttention-2 reaches 381 TFLOPS, 64 % of what that would give.
        .mma_sync_clocks = {8, unverified},
        .board_watts = {1000, b200_smi},
        .memory_gb = {180, b200_smi}},
    Gpu{.id = "rtx5090",
        .name = "NVIDIA GeForce RTX 5090",
        .architecture = "sm_120",
        .sm_count = {170, rtx5090_query},
        .boost_clock_mhz = {2407, rtx5090_query},
        .base_clock_mhz = {2017, unverified},
        .tensor_clock_mhz = {2407, rtx5090_query},
        .memory_clock_mhz = {14001, rtx5090_query},
        .memory_bus_bits = {512, rtx5090_query},
        .dram_gb_per_s = bandwidth(14001, 512),
        .l2_bytes = {100663296, rtx5090_query},
        .fp16_tensor_tflops = {209.5, blackwell_paper},
        .mma_sync_clocks = {32, rate_arithmetic},
        .board_watts = {575, rtx5090_smi},
        .memory_gb = {32, rtx5090_smi}},
};

constexpr std::array names{
    GpuFact{"sm_count", &Gpu::sm_count},
    GpuFact{"boost_clock_mhz", &Gpu::boost_clock_mhz},
    GpuFact{"base_clock_mhz", &Gpu::base_clock_mhz},
    GpuFact{"tensor_clock_mhz", &Gpu::tensor_clock_mhz},
    GpuFact{"memory_clock_mhz", &Gpu::memory_clock_mhz},
    GpuFact{"memory_bus_bits", &Gpu::memory_bus_bits},
    GpuFact{"dram_gb_per_s", &Gpu::dram_gb_per_s},
    GpuFact{"l2_bytes", &Gpu::l2_bytes},
    GpuFact{"l2_bytes_per_clock_per_sm", &Gpu::l2_bytes_per_clock_per_sm},
    GpuFact{"fp16_tensor_tflops", &Gpu::fp16_tensor_tflops},
    GpuFact{"mma_sync_clocks", &Gpu::mma_sync_clocks},
    GpuFact{"board_watts", &Gpu::board_watts},
    GpuFact{"memory_gb", &Gpu::memory_gb},
};

}  // namespace

std::span<const Gpu> all_gpus() {
  return gpus;
}
std::span<const GpuFact> gpu_facts() {
  return names;
}

}  // namespace flashmoe
