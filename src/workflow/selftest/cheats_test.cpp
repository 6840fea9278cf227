#include "workflow/selftest/cheats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support/tree_for_test.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/selftest/corpus.hpp"
#include "workflow/selftest/cuda_corpus.hpp"
#include "workflow/selftest/selftest.hpp"

namespace flashmoe::workflow {
namespace {

std::set<std::string> names_of_corpus() {
  std::set<std::string> names;
  for (const Cheat& cheat : all_cheats()) names.insert(cheat.name);
  return names;
}

// Of those in the gate: who is stopped before anything is timed, or who is not.
std::vector<std::string> part_of_gate(bool timed) {
  std::vector<std::string> names;
  for (const Cheat& cheat : all_cheats()) {
    if (cheat.in_gate && timed != cheat.expected_gate.starts_with("correctness")) names.push_back(cheat.name);
  }
  return names;
}

// The whole corpus is run by `cudadent selftest`, every night.
void expect_as_expected(const std::vector<std::string>& names) {
  Progress quiet(1, true);
  const auto outcomes = run_cheats(quiet, names);
  ASSERT_EQ(outcomes.size(), names.size());
  for (const CheatOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.as_expected) << outcome.name << ": expected '" << outcome.expected_gate.value_or("")
                                     << "', stopped at '" << outcome.stopped_at.value_or("") << "': " << outcome.message
                                     << outcome.not_run;
  }
  const CorpusCounts counts = counts_of(outcomes);
  EXPECT_EQ(counts.refused + counts.passed, static_cast<int>(outcomes.size()));
}

TEST(Cheats, AreRefusedWhereTheyShouldBe) {
  expect_as_expected(part_of_gate(false));
}

TEST(TimedCheats, AreRefusedWhereTheyShouldBeAndHonestKernelsPass) {
  EXPECT_EQ(part_of_gate(true).front(), "honest");
  expect_as_expected(part_of_gate(true));
}

TEST(Corpus, OfTheGateIsRunInTwoParts) {
  EXPECT_EQ(part_of_gate(true).size() + part_of_gate(false).size(), names_in_gate().size());
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

// Names in the right column of the page's tables (the left one is other people's), by the heading that they stand
// under.
std::map<std::string, std::set<std::string>> names_on_the_page(int& rows) {
  std::map<std::string, std::set<std::string>> names;
  std::ifstream page(in_sources("docs/cheats.md"));
  const std::regex code("`([a-z0-9_]+)`");
  std::string heading;
  rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) heading = line;
    if (!line.starts_with("| ")) continue;
    ++rows;
    const std::string ours = line.substr(line.find(" | ") + 1);
    for (std::sregex_iterator found(ours.begin(), ours.end(), code), end; found != end; ++found) {
      names[heading].insert((*found)[1]);
    }
  }
  return names;
}

// docs/cheats.md names, for what others have seen, the kernel here that does the same.
TEST(Corpus, HasTheKernelsThatThePageNames) {
  int rows = 0;
  const auto on_the_page = names_on_the_page(rows);
  EXPECT_GE(rows, 60) << "docs/cheats.md";
  auto names = names_of_corpus();
  for (const CudaCase& one : all_cuda_cases()) names.insert(one.name);
  for (const auto& [heading, named] : on_the_page) {
    for (const std::string& name : named) EXPECT_TRUE(names.contains(name)) << name << " under: " << heading;
  }
}

TEST(Corpus, ThePageSaysOfEveryCheatWhatRefusesIt) {
  int rows = 0;
  auto on_the_page = names_on_the_page(rows);
  std::set<std::string> cpu;
  std::set<std::string> cuda;
  for (const Cheat& cheat : all_cheats()) {
    if (!cheat.expected_gate.empty()) cpu.insert(cheat.name);
  }
  for (const CudaCase& one : all_cuda_cases()) {
    if (!one.expected_gate.empty()) cuda.insert(one.name);
  }
  EXPECT_EQ(on_the_page["## By which check"], cpu);
  EXPECT_EQ(on_the_page["## By which check, on a virtual GPU"], cuda);
}

}  // namespace
}  // namespace flashmoe::workflow
