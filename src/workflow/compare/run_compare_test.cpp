#include "workflow/compare/run_compare.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "workflow/compare/versions.hpp"
#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

Record compare_record(const std::string& run, const std::string& key, std::uint64_t seed, std::size_t pairs) {
  Record record;
  record.run = run;
  record.body = CompareRecord{.key = key, .seed = seed, .pairs_used = pairs};
  return record;
}

TEST(NextIndex, CountsEveryComparisonOfTheRunThatLookedAtPairs) {
  EXPECT_EQ(next_index({}, "today"), 1);
  Record gate;
  gate.run = "today";
  gate.body = GateRecord{};
  const std::vector<Record> records{
      compare_record("today", "a", 1, 12),
      compare_record("yesterday", "b", 2, 12),
      compare_record("today", "c", 3, 0),   // refused before any pair: nothing was looked at
      compare_record("today", "d", 4, 3),   // preempted ...
      compare_record("today", "d", 4, 9),   // ... and gone on with: one comparison
      compare_record("today", "a", 5, 12),  // the same versions measured anew: another one
      gate};
  EXPECT_EQ(next_index(records, "today"), 4);
}

TEST(LeastGain, ComesFromThePhaseOrNamesThePhases) {
  Project project;
  EXPECT_DOUBLE_EQ(*least_gain_of(project, "parallelism"), 0.20);
  const auto unknown = least_gain_of(project, "magic");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("compute, memory, parallelism, tuning"), std::string::npos);
}

TEST(Workload, IsTheNamedOneOrTheTarget) {
  Project project;
  project.workloads = {{.name = "tiny", .values = {}}, {.name = "big", .values = {}}, {.name = "huge", .values = {}}};
  project.thresholds.target_workload = "big";
  EXPECT_EQ(workload_of(project, "tiny")->name, "tiny");
  EXPECT_EQ(workload_of(project, "")->name, "big");
  const auto unknown = workload_of(project, "bog");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("tiny, big, huge"), std::string::npos);
}

// Splits of the keys need a place for their partial results: a candidate that has them is still the same kernel.
TEST(Comparable, ScratchIsTheKernelsOwnAffair) {
  Version base;
  base.project.workloads = {{.name = "tiny", .values = {}}};
  base.project.tensors.resize(1);
  base.project.tensors[0].name = "y";
  base.project.tensors[0].role = TensorRole::output;
  Version candidate;
  candidate.project = base.project;
  candidate.project.tensors.emplace_back();
  candidate.project.tensors[1].role = TensorRole::scratch;
  EXPECT_TRUE(check_comparable(base, candidate, base.project.workloads[0]));
  candidate.project.tensors[1].role = TensorRole::stage;
  EXPECT_FALSE(check_comparable(base, candidate, base.project.workloads[0]));
}

class VersionsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "versions_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    project_ = root_ / "kernels" / "one";
    fs::create_directories(project_);
    std::ofstream(project_ / "cudadent.toml") << "first";
    git("init -q");
    commit("first");
    std::ofstream(project_ / "cudadent.toml") << "second";
    commit("second");
  }
  void TearDown() override { fs::remove_all(root_); }
  void git(const std::string& arguments) const {
    const std::string command = "git -C " + root_.string() + " -c user.name=t -c user.email=t@example.org " + arguments;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  void commit(const std::string& message) const {
    git("add .");
    git("commit -qm " + message);
  }
  [[nodiscard]] static std::string content(const fs::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  [[nodiscard]] bool has_worktrees() const {
    std::error_code error;
    return fs::exists(root_ / ".git" / "worktrees", error) && !fs::is_empty(root_ / ".git" / "worktrees", error);
  }

  fs::path root_, project_;
};

TEST_F(VersionsTest, ACommitGetsAWorktreeAndTheTreeStaysAsItIs) {
  std::ofstream(project_ / "cudadent.toml") << "my edits";
  {
    const auto worktree = Worktree::make(project_.string(), "HEAD~1");
    ASSERT_TRUE(worktree) << worktree.error().to_string();
    EXPECT_EQ(content(fs::path((*worktree)->project_directory()) / "cudadent.toml"), "first");
    EXPECT_EQ(content(project_ / "cudadent.toml"), "my edits");
    EXPECT_TRUE(has_worktrees());
  }
  EXPECT_FALSE(has_worktrees()) << "it goes with its owner";
  EXPECT_TRUE(fs::is_empty(project_ / ".cudadent" / "worktrees"));
}

TEST_F(VersionsTest, TheSameCommitTwiceHasTwoPlaces) {
  const auto a = Worktree::make(project_.string(), "HEAD");
  const auto b = Worktree::make(project_.string(), "HEAD");
  ASSERT_TRUE(a && b);
  EXPECT_NE((*a)->project_directory(), (*b)->project_directory());
}

TEST_F(VersionsTest, WhatAKilledProcessLeftIsRemoved) {
  const auto first = Worktree::make(project_.string(), "HEAD");
  ASSERT_TRUE(first);
  // A process that no longer runs: no pid is that large.
  const fs::path left = project_ / ".cudadent" / "worktrees" / "0123456789ab-2147483646";
  git("worktree add -q --detach " + left.string() + " HEAD");
  const auto second = Worktree::make(project_.string(), "HEAD~1");
  ASSERT_TRUE(second);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists((*first)->project_directory())) << "its owner lives";
}

TEST_F(VersionsTest, WhatIsNoCommitIsSaidSo) {
  const auto none = Worktree::make(project_.string(), "no-such-branch");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no-such-branch"), std::string::npos);
  EXPECT_FALSE(Worktree::make(project_.string(), "--help")) << "a name is never an option";
}

// Sleeps so far apart that no load of the machine changes the verdict.
struct SleepingVersion : ProjectForTest {
  explicit SleepingVersion(int microseconds) {
    write("cudadent.toml",
          "name = \"sleeping\"\nkernel = \"kernel.cpp:kernel\"\nreference = \"reference.cpp:kernel\"\n[params]\nn = { "
          "default = 8 }\n[inputs]\n"
          "x = \"f32[n]\"\n[outputs]\ny = \"f32[n]\"\n[workloads]\ntiny = { n = 8 }\n");
    write("kernel.cpp", source(microseconds));
    write("reference.cpp", source(0));
  }
  static std::string source(int microseconds) {
    return "#include <cudadent/kernel.h>\n#include <unistd.h>\nextern \"C\" int kernel(const cudadent_call* call) {\n"
           "  usleep(" +
           std::to_string(microseconds) +
           ");\n  for (int64_t i = 0; i < call->tensors[0].shape[0]; ++i)\n"
           "    ((float*)call->tensors[1].data)[i] = 2 * ((const float*)call->tensors[0].data)[i];\n  return 0;\n}\n";
  }
};

TEST(RunCompare, FilesThatChangeMeanwhileLeaveItOpen) {
  const SleepingVersion base(2'000);
  const SleepingVersion candidate(200);
  const CompareRequest request{
      .project = base.project.directory, .base = ".", .candidate = candidate.project.directory, .run = "of-a-test"};
  Progress quiet(compare_steps, true);
  std::atomic<bool> over = false;
  std::thread planting([&] {
    while (!over && !fs::exists(base.project.directory + "/.cudadent/partial"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    candidate.write("numpy.py", "1");
  });
  const auto open = run_compare(request, quiet);
  over = true;
  planting.join();
  ASSERT_TRUE(open) << open.error().to_string();
  EXPECT_EQ(open->comparison.word(), "INCONCLUSIVE");
  EXPECT_NE(open->comparison.problem.message.find("numpy.py was not there before"), std::string::npos)
      << open->comparison.problem.message;
  EXPECT_EQ(open->outcome(), Outcome::inconclusive);
}

}  // namespace
}  // namespace flashmoe::workflow
