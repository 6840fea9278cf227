// Kernels of the corpus that pretend, handed in as proposals: the loop keeps none of them, and the user's files stay as
// they are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/optimize/optimize.hpp"
#include "workflow/selftest/cheats.hpp"

namespace flashmoe::workflow {
namespace {

// What can be handed in as a kernel alone.
std::vector<Cheat> cheats_of(const std::string& task, std::size_t most) {
  std::vector<Cheat> chosen;
  for (const Cheat& cheat : all_cheats()) {
    const bool alone = cheat.files.empty() && cheat.flags.empty() && cheat.threads == 1;
    if (cheat.task == task && !cheat.expected_gate.empty() && alone && chosen.size() < most) chosen.push_back(cheat);
  }
  return chosen;
}

// A slow kernel that is right: whoever skips the work has something to gain.
const Cheat honest{.name = "honest",
                   .what = "does it four times",
                   .source = "ENTRY { for (volatile int k = 0; k < 4; k = k + 1) honest(x, y, n, m); return 0; }"};

class Proposals : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto files = project_files(honest);
    ASSERT_TRUE(files) << files.error().to_string();
    files_ = *files;
    files_[".gitignore"] = ".cudadent/\n";
    for (const auto& [name, text] : files_) std::ofstream(path(name)) << text;
    for (const std::vector<std::string>& step : std::vector<std::vector<std::string>>{
             {"init", "-q"},
             {"add", "."},
             {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "a start"}}) {
      const auto done = run_git(directory_.path().string(), step);
      ASSERT_TRUE(done) << done.error().to_string();
    }
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  // One after the other; returns what came of each.
  std::vector<Iteration> hand_in(const std::vector<Cheat>& cheats) {
    std::size_t next = 0;
    const Propose propose = [&](const LoopState&) -> Result<std::optional<Proposal>> {
      if (next == cheats.size()) return std::optional<Proposal>{};
      const Cheat& cheat = cheats[next++];
      const auto files = project_files(cheat);
      if (!files) return files.error();
      return std::optional(
          Proposal{.proposer = "cheat", .hypothesis = cheat.what, .files = {{"kernel.cpp", files->at("kernel.cpp")}}});
    };
    const auto report = run_optimize({.project = directory_.path().string(),
                                      .device = "cpu",
                                      .max_iterations = static_cast<int>(cheats.size()) + 1,
                                      .quiet = true,
                                      .propose = propose});
    EXPECT_TRUE(report) << report.error().to_string();
    if (!report) return {};
    for (const auto& [name, text] : files_) EXPECT_EQ(whole_file(path(name)), text) << name;
    EXPECT_EQ(*run_git(directory_.path().string(), {"status", "--porcelain"}), "");
    return report->iterations;
  }

  void none_is_kept(const std::vector<Cheat>& cheats) {
    const std::vector<Iteration> iterations = hand_in(cheats);
    ASSERT_EQ(iterations.size(), cheats.size());
    for (std::size_t i = 0; i < cheats.size(); ++i) {
      fmt::print("{}: {}: {}\n", cheats[i].name, iterations[i].verdict, iterations[i].ground);
      EXPECT_FALSE(iterations[i].advanced) << cheats[i].name << ": " << iterations[i].ground;
    }
  }

  TemporaryDirectory directory_{};
  std::map<std::string, std::string> files_{};
};

TEST_F(Proposals, CheatsAreNotKept) {
  std::vector<Cheat> cheats = cheats_of("map", 10);
  std::erase_if(cheats,
                [](const Cheat& cheat) { return cheat.name != "early_return" && cheat.name != "right_when_checked"; });
  ASSERT_EQ(cheats.size(), 2u);
  none_is_kept(cheats);
}
// Minutes: for the night.
TEST_F(Proposals, DISABLED_TwentyCheatsAreNotKept) {
  const std::vector<Cheat> cheats = cheats_of("map", 20);
  ASSERT_EQ(cheats.size(), 20u);
  none_is_kept(cheats);
}

// Or the refusals prove nothing. (In every gate tests/cudadent_agents_test.py sees an honest change kept.)
TEST_F(Proposals, DISABLED_AnHonestGainIs) {
  const std::vector<Iteration> iterations =
      hand_in({{.name = "once", .what = "once is enough", .source = "ENTRY { honest(x, y, n, m); return 0; }"}});
  ASSERT_EQ(iterations.size(), 1u);
  EXPECT_TRUE(iterations[0].advanced) << iterations[0].verdict << ": " << iterations[0].ground;
}

}  // namespace
}  // namespace flashmoe::workflow
