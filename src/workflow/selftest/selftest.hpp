// The tool measures itself: how often it keeps something false, what it can see, and whether it can be cheated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "workflow/journal/selftest_record.hpp"
#include "workflow/selftest/real.hpp"
#include "workflow/selftest/simulation.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct Record;

struct SelftestOptions {
  bool quick = false;  // 400 simulated runs, one injected slowdown, the corpus as the gate runs it
  std::uint64_t seed = 42;
  bool simulated = true;
  bool real = true;
  bool cheats = true;
  bool noise = false;  // minutes, on a machine that does nothing else
  double real_limit_seconds = 240;
};

struct SelftestReport {
  std::vector<SelftestCheck> checks{};
  NullResult null{};
  std::vector<PowerCell> power{};       // k = 1: the first comparison of a run
  std::vector<PowerCell> power_last{};  // k = 20: the last of a run of 20
  std::vector<RealComparison> real{};
  std::vector<CheatOutcome> cheats{};
  std::optional<NoiseResult> noise{};
  double seconds = 0;
  bool was_interrupted = false;
  [[nodiscard]] Outcome outcome() const;  // fails: a must does not hold; inconclusive: only goals are missed
};

[[nodiscard]] int selftest_steps(const SelftestOptions& options);
[[nodiscard]] SelftestReport run_selftest(const SelftestOptions& options, Progress& progress);
[[nodiscard]] Record record_of(const SelftestReport& report);
[[nodiscard]] std::string report_text(const SelftestReport& report);   // without the verdict
[[nodiscard]] std::string verdict_text(const SelftestReport& report);  // in a line

}  // namespace flashmoe::workflow
