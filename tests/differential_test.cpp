// Random problems over all features, each run on every ISA of this machine and judged by the oracle.
//
//   FMS_DIFFERENTIAL_PROBLEMS=n   problems per dtype (each runs on every ISA)
//   FMS_DIFFERENTIAL_SEED=s       the first seed; with FMS_DIFFERENTIAL_PROBLEMS=1 this replays one failure
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "support/environment.hpp"
#include "support/judge.hpp"
#include "support/library_run.hpp"
#include "support/number_format.hpp"
#include "support/random_problem.hpp"
#include "support/sanitizers.hpp"

namespace flashmoe::testing {
namespace {

// A fence that is touched kills the process; the problem must be known all the same.
char current_problem[8192];

void print_current_problem_and_die(int signal_number) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, current_problem, strnlen(current_problem, 8192));
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void announce(const std::string& problem) {
  const std::string text = "\nKilled in: " + problem + '\n';
  std::strncpy(current_problem, text.c_str(), sizeof current_problem - 1);
}

// Half of the runs leave everything to the planner.
fms_plan_options random_options(uint64_t seed) {
  Random random(seed ^ 0x5eed);
  if (random.chance(0.5)) {
    return plan_options(0, 0, 0);
  }
  const auto threads = static_cast<int32_t>(random.between(0, 4));
  const auto kv_splits = static_cast<int32_t>(random.chance(0.5) ? 0 : random.between(1, 9));
  const auto q_tile = static_cast<int32_t>(random.chance(0.7) ? 0 : random.between(1, 80));
  return plan_options(threads, kv_splits, q_tile);
}

class Differential : public ::testing::TestWithParam<fms_dtype> {};

TEST_P(Differential, EveryIsaAgreesWithTheOracle) {
  const fms_dtype dtype = GetParam();
  const uint64_t problems = from_environment("FMS_DIFFERENTIAL_PROBLEMS", kSlowBuild ? 40 : 200);
  const uint64_t first_seed = from_environment("FMS_DIFFERENTIAL_SEED", 1);
  const std::vector<fms_cpu_isa> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  std::vector<Context> contexts;
  std::vector<Judgement> totals(isas.size());
  for (const fms_cpu_isa isa : isas) {
    contexts.push_back(make_context(isa));
  }
  std::signal(SIGSEGV, print_current_problem_and_die);
  std::signal(SIGBUS, print_current_problem_and_die);
  std::signal(SIGILL, print_current_problem_and_die);

  uint64_t failures = 0;
  for (uint64_t seed = first_seed; seed < first_seed + problems && failures < 10; ++seed) {
    AttentionCase one = random_case(seed, dtype);
    const OracleAnswer oracle(one);
    const fms_plan_options options = random_options(seed);
    for (size_t at = 0; at < isas.size(); ++at) {
      const std::string name = std::string(fms_cpu_isa_name(isas[at])) + " seed " + std::to_string(seed) +
                               " threads=" + std::to_string(options.threads) +
                               " kv_splits=" + std::to_string(options.kv_splits) +
                               " q_tile=" + std::to_string(options.q_tile) + "\n  " + one.describe();
      announce(name);
      one.reset_outputs();
      const RunResult result = plan_and_run(contexts[at].get(), one, &options);
      if (result.status != FMS_OK) {
        ADD_FAILURE() << to_string(result.error) << "\n  " << name;
        ++failures;
        continue;
      }
      const Judgement judgement = judge(one, oracle);
      const std::string stray = one.stray_write().value_or("");
      if (!judgement.complaint.empty() || !stray.empty()) {
        ADD_FAILURE() << judgement.complaint << stray << "\n  " << name;
        ++failures;
      }
      totals[at].squared_errors_over_bounds += judgement.squared_errors_over_bounds;
      totals[at].elements += judgement.elements;
      totals[at].worst_error_over_bound = std::max(totals[at].worst_error_over_bound, judgement.worst_error_over_bound);
    }
  }
  for (size_t at = 0; at < isas.size(); ++at) {
    // Each bound is a worst case. Rounding errors are spread evenly within theirs, so over a whole set the RMS of
    // error / bound cannot exceed 1/sqrt(3): more than that is a bias, not rounding.
    const double rms = std::sqrt(totals[at].squared_errors_over_bounds /
                                 static_cast<double>(std::max<int64_t>(totals[at].elements, 1)));
    RecordProperty(std::string("rms_error_over_bound_") + fms_cpu_isa_name(isas[at]), std::to_string(rms));
    std::cout << "  " << dtype_name(dtype) << ' ' << fms_cpu_isa_name(isas[at]) << ": error/bound rms " << rms
              << ", worst " << totals[at].worst_error_over_bound << " over " << totals[at].elements << " elements\n";
    EXPECT_LE(rms, 1 / std::sqrt(3.0)) << fms_cpu_isa_name(isas[at]);
  }
}

INSTANTIATE_TEST_SUITE_P(AllDtypes, Differential, ::testing::ValuesIn(kAllDtypes),
                         [](const auto& param_info) { return std::string(dtype_name(param_info.param)); });

}  // namespace
}  // namespace flashmoe::testing
