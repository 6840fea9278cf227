// The first rules of the decision tree, over the counters of one launch.
#include <fmt/format.h>

#include <optional>

#include "workflow/gpu/profile.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double enough_waves = 1;
constexpr double most_imbalance = 4;          // a causal triangle has 2
constexpr double most_conflict_share = 0.05;  // of the wavefronts; above it pays to pad or swizzle
constexpr double enough_occupancy_percent = 50;
constexpr double enough_coalescing_percent = 70;

std::optional<double> metric(const LaunchReport& launch, const std::string& name) {
  const auto found = launch.metrics.find(name);
  return found != launch.metrics.end() ? std::optional(found->second) : std::nullopt;
}

// The source line with the largest value, as "file:line".
template <class Value>
std::string worst_line(const LaunchReport& launch, Value value) {
  double most = 0;
  std::string place;
  for (const ReportedLine& line : launch.source_lines) {
    if (line.line == 0 || value(line) <= most) continue;
    most = value(line);
    place = fmt::format("{}:{}", line.file, line.line);
  }
  return place;
}

std::optional<Advice> grid_rule(const LaunchReport& launch) {
  if (launch.waves >= enough_waves) return std::nullopt;
  const std::int64_t ctas = launch.ctas();
  const auto working = static_cast<std::int64_t>(launch.working_ctas);
  const auto sms = static_cast<std::int64_t>(launch.sms);
  std::string says = fmt::format("the grid is too small: {} CTAs on {} SMs is {:.3f} waves", ctas, sms, launch.waves);
  if (working < ctas)
    says = fmt::format(
        "the grid is too small: {} of {} CTAs do work, on {} of {} SMs, which is {:.3f} waves (of all "
        "CTAs {:.3f})",
        working, ctas, static_cast<std::int64_t>(launch.working_sms), sms, launch.waves, launch.waves_of_grid);
  if (working < sms)
    says += fmt::format("; at least {} SMs have nothing to do ({:.1f} % of the machine is used)", sms - working,
                        100.0 * static_cast<double>(working) / static_cast<double>(sms));
  return Advice{.rule = "grid",
                .says = says,
                .where = {},
                .fix = "more parallelism first: smaller tiles, or split the reduction (keys, K) over CTAs and combine"};
}

// No machine is faster than the largest CTA: all others together keep no more slots busy than they hold of its work.
std::optional<Advice> balance_rule(const LaunchReport& launch) {
  if (launch.waves < enough_waves || launch.largest_cta_over_mean <= most_imbalance) return std::nullopt;
  const double worth = static_cast<double>(launch.ctas()) / launch.largest_cta_over_mean;
  if (worth >= launch.sms) return std::nullopt;
  return Advice{
      .rule = "balance",
      .says = fmt::format("the work is uneven: the largest CTA executes {:.1f} times the mean, so that {} CTAs "
                          "are worth {:.1f} of that size on {} SMs",
                          launch.largest_cta_over_mean, launch.ctas(), worth, static_cast<std::int64_t>(launch.sms)),
      .where = {},
      .fix = "give every CTA the same share: split the longest, or let CTAs take tiles from a counter"};
}

std::optional<Advice> bank_conflict_rule(const LaunchReport& launch) {
  const auto conflicts = metric(launch, "vgpu__shared_bank_conflicts.sum");
  const auto wavefronts = metric(launch, "vgpu__shared_wavefronts.sum");
  if (!conflicts || !wavefronts || *wavefronts == 0 || *conflicts / *wavefronts <= most_conflict_share)
    return std::nullopt;
  return Advice{
      .rule = "bank conflicts",
      .says = fmt::format("{:.0f} of {:.0f} shared-memory wavefronts ({:.0f} %) are bank conflicts", *conflicts,
                          *wavefronts, 100 * *conflicts / *wavefronts),
      .where = worst_line(launch, [](const ReportedLine& line) { return line.shared_bank_conflicts; }),
      .fix = "pad the rows of the shared array (by 16 bytes), or swizzle: XOR the 16-byte column with the row"};
}

std::optional<Advice> occupancy_rule(const LaunchReport& launch) {
  if (launch.occupancy_percent >= enough_occupancy_percent) return std::nullopt;
  const std::string& limiter = launch.occupancy_limiter;
  std::string fix = "use fewer registers or less shared memory per CTA";
  if (limiter.rfind("registers", 0) == 0)
    fix = "use fewer registers: __launch_bounds__(threads, CTAs), smaller tiles per thread";
  if (limiter.rfind("shared", 0) == 0) fix = "use less shared memory per CTA: fewer stages or smaller tiles";
  if (limiter.rfind("blocks", 0) == 0) fix = "use larger CTAs: an SM holds only so many";
  if (limiter.rfind("barriers", 0) == 0)
    fix = "use fewer named barriers: from compute capability 9.0 on CTAs share them";
  return Advice{.rule = "occupancy",
                .says = fmt::format("{:.0f} % occupancy: {:.0f} CTAs an SM, limited by {}", launch.occupancy_percent,
                                    launch.ctas_per_sm, limiter),
                .where = {},
                .fix = fix};
}

std::optional<Advice> coalescing_rule(const LaunchReport& launch) {
  const auto percent = metric(launch, "vgpu__coalescing_efficiency.pct");
  if (!percent || *percent >= enough_coalescing_percent) return std::nullopt;
  return Advice{.rule = "coalescing",
                .says = fmt::format(
                    "only {:.0f} % of the global-memory sectors would be needed: accesses are not coalesced", *percent),
                .where = worst_line(
                    launch, [](const ReportedLine& line) { return line.global_sectors - line.global_sectors_ideal; }),
                .fix = "let neighbouring threads touch neighbouring addresses, 16 bytes each"};
}

}  // namespace

std::vector<Advice> advise(const LaunchReport& launch) {
  std::vector<Advice> all;
  for (const auto rule : {grid_rule, balance_rule, bank_conflict_rule, occupancy_rule, coalescing_rule}) {
    if (auto advice = rule(launch)) all.push_back(std::move(*advice));
  }
  return all;
}

}  // namespace flashmoe::workflow
