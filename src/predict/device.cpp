#include "predict/device.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>
#include <vector>

namespace flashmoe::predict {
namespace {

struct Running {
  double left = 0;  // of its work, 1 at the start
  const CtaCycles* cta = nullptr;
};

// CTAs that share one SM.
class SharedSm {
 public:
  SharedSm(int places, double gap) : places_(places), gap_(gap) {}

  [[nodiscard]] bool has_room() const { return running_.size() < static_cast<std::size_t>(places_); }
  [[nodiscard]] bool is_idle() const { return running_.empty(); }
  void start(const CtaCycles& cta, bool follows) {
    running_.push_back({1 + (follows ? gap_ / std::max(1.0, cta.alone) : 0), &cta});
  }
  [[nodiscard]] double next_end() const {
    double end = -1;
    for (const Running& one : running_) {
      const double its = now_ + one.left * cycles_of(*one.cta);
      if (end < 0 || its < end) end = its;
    }
    return end;
  }
  void advance(double to) {
    for (Running& one : running_) one.left -= (to - now_) / cycles_of(*one.cta);
    now_ = to;
    std::erase_if(running_, [](const Running& one) { return one.left < 1e-9; });
  }

 private:
  [[nodiscard]] double cycles_of(const CtaCycles& cta) const {
    if (places_ == 1) return std::max(1.0, cta.alone);
    const double share = static_cast<double>(running_.size() - 1) / (places_ - 1);
    return std::max(1.0, cta.alone + (cta.resident - cta.alone) * share);
  }

  int places_;
  double gap_;
  double now_ = 0;
  std::vector<Running> running_{};
};

struct GpuTimes {
  std::string_view id;
  LaunchCost launch;
  Fact sustained_clock_mhz;
};

constexpr std::string_view small_l40 = "RRZE-HPC/gpu-benches gpu-small-kernels, an L40";
constexpr std::string_view small_a40 = "RRZE-HPC/gpu-benches gpu-small-kernels, an A40";
constexpr std::string_view small_a100 = "RRZE-HPC/gpu-benches gpu-small-kernels, an A100";
constexpr std::string_view small_h200 = "RRZE-HPC/gpu-benches gpu-small-kernels, an H200";
constexpr std::string_view fitted = "fitted: one clock to published FlashAttention-2 times (docs/predict.md)";

constexpr std::array gpu_times{
    GpuTimes{"l4", {{1.6, small_l40}, {0.94, small_l40}}, {1080, fitted}},
    GpuTimes{"l40s", {{1.6, small_l40}, {0.94, small_l40}}, {}},
    GpuTimes{"rtx4090", {{1.6, small_l40}, {0.94, small_l40}}, {2513, fitted}},
    GpuTimes{"a10", {{2.0, small_a40}, {1.09, small_a40}}, {}},
    GpuTimes{"a100", {{2.7, small_a100}, {1.34, small_a100}}, {1227, fitted}},
    GpuTimes{"h100", {{2.5, small_h200}, {1.28, small_h200}}, {1605, fitted}},
};

const GpuTimes* times_of(const Gpu& gpu) {
  const auto found =
      std::find_if(gpu_times.begin(), gpu_times.end(), [&](const GpuTimes& one) { return one.id == gpu.id; });
  return found == gpu_times.end() ? nullptr : &*found;
}

}  // namespace

CtaCycles cycles_at(std::span<const CurvePoint> curve, double instructions) {
  if (curve.empty()) return {};
  if (curve.size() == 1) {
    const double share = curve[0].instructions > 0 ? instructions / curve[0].instructions : 1;
    return {curve[0].cycles.alone * share, curve[0].cycles.resident * share};
  }
  std::size_t right = 1;
  while (right + 1 < curve.size() && curve[right].instructions < instructions) ++right;
  const CurvePoint& a = curve[right - 1];
  const CurvePoint& b = curve[right];
  const double width = b.instructions - a.instructions;
  const double share = width > 0 ? (instructions - a.instructions) / width : 0;
  return {std::max(1.0, a.cycles.alone + share * (b.cycles.alone - a.cycles.alone)),
          std::max(1.0, a.cycles.resident + share * (b.cycles.resident - a.cycles.resident))};
}

double grid_cycles(std::span<const CtaCycles> ctas, int sms, int resident, double gap) {
  if (ctas.empty() || sms < 1) return 0;
  std::vector<SharedSm> all(static_cast<std::size_t>(sms), SharedSm(std::max(1, resident), gap));
  std::size_t next = 0;
  for (int round = 0; round < resident; ++round)
    for (SharedSm& sm : all)
      if (next < ctas.size()) sm.start(ctas[next++], false);
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].is_idle()) events.emplace(all[i].next_end(), i);
  double end = 0;
  while (!events.empty()) {
    const auto [time, i] = events.top();
    events.pop();
    SharedSm& sm = all[i];
    sm.advance(time);
    end = std::max(end, time);
    if (sm.has_room() && next < ctas.size()) sm.start(ctas[next++], true);
    if (sm.is_idle()) continue;
    // SMs that become free together share what is left: a second place waits until the others have had their turn.
    const double ends = sm.next_end();
    events.emplace(sm.has_room() && next < ctas.size() ? std::min(ends, time + 1) : ends, i);
  }
  return end;
}

Fact dram_efficiency(const Gpu& gpu) {
  if (gpu.id == "l4") return {0.75, "fitted: published SDPA times of an L4 at S=512 beyond its L2 (0.70 to 0.79)"};
  return {0.9, {}};
}

double dram_seconds(const Gpu& gpu, double dram_bytes, double working_set_bytes) {
  if (working_set_bytes <= gpu.l2_bytes.value || !gpu.dram_gb_per_s.known()) return 0;
  return dram_bytes / (gpu.dram_gb_per_s.value * 1e9 * dram_efficiency(gpu).value);
}

LaunchCost launch_cost(const Gpu& gpu) {
  const GpuTimes* times = times_of(gpu);
  return times == nullptr ? LaunchCost{} : times->launch;
}

Fact sustained_clock_mhz(const Gpu& gpu) {
  const GpuTimes* times = times_of(gpu);
  return times == nullptr ? Fact{} : times->sustained_clock_mhz;
}

Range cold_start_cycles(const Machine& machine, double executed_code_bytes) {
  constexpr double line_bytes = 128;
  constexpr double cycles_per_line = 32;  // fetched one after the other, with some ahead; unverified
  return {.least = machine.dram_latency - machine.global_latency,
          .most = 2 * machine.dram_latency + executed_code_bytes / line_bytes * cycles_per_line};
}

}  // namespace flashmoe::predict
