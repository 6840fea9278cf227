#include "predict/device.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace flashmoe::predict {
namespace {

struct Running {
  double left = 1;  // of its work
  double from = 0;
  const CtaCycles* cta = nullptr;
};

// CTAs that share one SM.
class SharedSm {
 public:
  explicit SharedSm(int places) : places_(places) {}

  [[nodiscard]] bool has_room() const { return running_.size() < static_cast<std::size_t>(places_); }
  [[nodiscard]] bool is_idle() const { return running_.empty(); }
  void start(const CtaCycles& cta, double from) { running_.push_back({.from = from, .cta = &cta}); }

  // When one ends, or one that was awaited begins and slows the others.
  [[nodiscard]] double next_event() const {
    const auto at_work = active();
    double next = std::numeric_limits<double>::infinity();
    for (const Running& one : running_)
      next = std::min(next, one.from > now_ ? one.from : now_ + one.left * cycles_of(*one.cta, at_work));
    return next;
  }
  void advance(double to) {
    const auto at_work = active();
    for (Running& one : running_)
      if (one.from <= now_) one.left -= (to - now_) / cycles_of(*one.cta, at_work);
    now_ = to;
    std::erase_if(running_, [](const Running& one) { return one.left < 1e-9; });
  }

 private:
  [[nodiscard]] std::ptrdiff_t active() const {
    return std::count_if(running_.begin(), running_.end(), [&](const Running& one) { return one.from <= now_; });
  }
  [[nodiscard]] double cycles_of(const CtaCycles& cta, std::ptrdiff_t at_work) const {
    if (places_ == 1) return std::max(1.0, cta.alone);
    const double share = static_cast<double>(at_work - 1) / (places_ - 1);
    return std::max(1.0, cta.alone + (cta.resident - cta.alone) * share);
  }

  int places_;
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
  std::vector<SharedSm> all(static_cast<std::size_t>(sms), SharedSm(std::max(1, resident)));
  std::size_t next = 0;
  for (int round = 0; round < resident; ++round)
    for (SharedSm& sm : all)
      if (next < ctas.size()) sm.start(ctas[next++], 0);
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].is_idle()) events.emplace(all[i].next_event(), i);
  double end = 0;
  while (!events.empty()) {
    const auto [time, i] = events.top();
    events.pop();
    SharedSm& sm = all[i];
    sm.advance(time);
    end = std::max(end, time);
    if (sm.has_room() && next < ctas.size()) sm.start(ctas[next++], time + gap);
    if (sm.is_idle()) continue;
    // SMs that become free together share what is left: a second place waits until the others have had their turn.
    const double soonest = sm.next_event();
    events.emplace(sm.has_room() && next < ctas.size() ? std::min(soonest, time + 1) : soonest, i);
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
