#include "workflow/selftest/cheats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "workflow/journal/record.hpp"
#include "workflow/runner/worker_for_test.hpp"
#include "workflow/selftest/corpus.hpp"
#include "workflow/selftest/selftest.hpp"

namespace flashmoe::workflow {
namespace {

std::set<std::string> names_of_corpus() {
  std::set<std::string> names;
  for (const Cheat& cheat : all_cheats()) names.insert(cheat.name);
  return names;
}

// The whole corpus is run by `cudadent selftest`, every night.
TEST(Cheats, AreRefusedWhereTheyShouldBeAndHonestKernelsPass) {
  Progress quiet(1, true);
  const auto outcomes = run_cheats(quiet, names_in_gate());
  ASSERT_EQ(outcomes.size(), names_in_gate().size());
  EXPECT_EQ(outcomes.front().name, "honest");
  for (const CheatOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.as_expected) << outcome.name << ": expected '" << outcome.expected_gate.value_or("")
                                     << "', stopped at '" << outcome.stopped_at.value_or("") << "': " << outcome.message
                                     << outcome.not_run;
  }
  const CorpusCounts counts = counts_of(outcomes);
  EXPECT_EQ(counts.refused + counts.passed, static_cast<int>(outcomes.size()));
}

TEST(Corpus, IsLargeAndItsNamesAreItsOwn) {
  const auto honest = std::count_if(all_cheats().begin(), all_cheats().end(),
                                    [](const Cheat& cheat) { return cheat.expected_gate.empty(); });
  EXPECT_GE(honest, 30);
  EXPECT_GE(std::ssize(all_cheats()) - honest, 40);
  EXPECT_EQ(names_of_corpus().size(), all_cheats().size());
  for (const Cheat& cheat : all_cheats())
    EXPECT_EQ(cheat.name.starts_with("honest"), cheat.expected_gate.empty()) << cheat.name;
}

TEST(Corpus, TheGateRunsSomeOfEveryKind) {
  for (const auto part :
       {timing_cheats, memory_cheats, result_cheats, escape_cheats, record_cheats, honest_kernels, honest_tasks}) {
    const auto kernels = part();
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [](const Cheat& cheat) { return cheat.in_gate; }))
        << kernels.front().name;
  }
}

TEST(Corpus, CountsWhatRan) {
  const CorpusCounts counts = counts_of({{.name = "refused", .expected_gate = "correctness", .as_expected = true},
                                         {.name = "got_through", .expected_gate = "correctness"},
                                         {.name = "passed", .as_expected = true, .asked_again = 2},
                                         {.name = "no_numpy", .not_run = "python3 has no numpy"}});
  EXPECT_EQ(counts,
            (CorpusCounts{.cheats = 2, .refused = 1, .honest = 1, .passed = 1, .not_run = 1, .asked_again = 2}));
}

TEST(Corpus, BothCountsAreTold) {
  SelftestReport report;
  report.cheats = {{.name = "a", .expected_gate = "correctness", .stopped_at = "correctness", .as_expected = true},
                   {.name = "b", .expected_gate = "correctness", .stopped_at = "correctness", .as_expected = true},
                   {.name = "honest", .as_expected = true}};
  EXPECT_NE(report_text(report).find("Corpus: 2 cheats, 1 honest kernels"), std::string::npos) << report_text(report);
  EXPECT_EQ(record_of(report).as<SelftestRecord>()->corpus,
            (CorpusCounts{.cheats = 2, .refused = 2, .honest = 1, .passed = 1}));
}

// docs/cheats.md names, for what others have seen, the kernel here that does the same.
TEST(Corpus, HasTheKernelsThatThePageNames) {
  std::ifstream page(CHEATS_PAGE);
  ASSERT_TRUE(page) << CHEATS_PAGE;
  const auto names = names_of_corpus();
  const std::regex code("`([a-z0-9_]+)`");
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ")) continue;
    ++rows;
    // The first column is theirs, the second ours.
    const std::string ours = line.substr(line.find(" | ") + 1);
    for (std::sregex_iterator found(ours.begin(), ours.end(), code), end; found != end; ++found) {
      EXPECT_TRUE(names.contains((*found)[1])) << (*found)[1] << " in: " << line;
    }
  }
  EXPECT_GE(rows, 60);
}

}  // namespace
}  // namespace flashmoe::workflow

int main(int argc, char** argv) {
  return flashmoe::workflow::run_tests_or_worker(argc, argv);
}
