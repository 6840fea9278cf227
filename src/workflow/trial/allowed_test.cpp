// Which files of a project a proposal may change.
#include "workflow/trial/allowed.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_directory.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/compare/versions.hpp"

namespace flashmoe::workflow {
namespace {

TEST(Allowed, TheCudaBaselineIsWhatToBeat) {
  Project project;
  project.directory = (std::filesystem::temp_directory_path() / "cudadent-allowed-test").string();  // no files needed
  project.cuda_sources = {"kernel.cu"};
  const auto allowed = [&](const std::string& path) { return bool(check_allowed(project, {{path, "x"}})); };
  EXPECT_TRUE(allowed("slow/tile.cuh"));
  project.cuda_baseline = "slow/";
  EXPECT_FALSE(allowed("slow/tile.cuh"));
  EXPECT_FALSE(allowed("./slow/deep/tile.cuh"));
  EXPECT_TRUE(allowed("slower/tile.cuh"));
  EXPECT_TRUE(allowed("tile.cuh"));
  EXPECT_TRUE(allowed("kernel.cu"));
}

constexpr const char* configuration = R"(name = "twice"
reference = "../judges/reference.cpp:run"
[params]
n = { default = 8 }
[inputs]
x = "f32[n]"
[outputs]
y = { type = "f32[n]", absolute = 1e-6, relative = 1e-6 }
[workloads]
tiny = { n = 8 }
[cuda]
sources = ["kernel.cu"]
[[cuda.instances]]
name = "twice"
grid = 1
block = 8
args = ["x", "y"]
)";

// A project whose reference lies beside it, in a repository.
class JudgingChange : public ::testing::Test {
 protected:
  void SetUp() override {
    project_.directory = (root_.path() / "project").string();
    project_.file = project_.directory + "/cudadent.toml";
    write("project/cudadent.toml", configuration);
    write("project/kernel.cu", "// reads cudadent.toml\n");
    write("judges/reference.cpp", "#include \"half.hpp\"  // see cudadent.toml\n");
    write("judges/half.hpp", "\n");
    ASSERT_TRUE(run_git(root_.path().string(), {"init", "-q"}));
    commit();
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name) << text;
  }
  // What is said of the tree with this part of cudadent.toml replaced.
  [[nodiscard]] std::string said_of(const std::string& part, const std::string& by) const {
    std::string text = configuration;
    text.replace(text.find(part), part.size(), by);
    const auto before = parse_project(configuration, project_.file), after = parse_project(text, project_.file);
    if (!before || !after) return (before ? after : before).error().message;
    return judging_change(*before, *after, {.files = {"project/cudadent.toml"}});
  }
  [[nodiscard]] std::string said() const {
    const auto change = take_snapshot(project_);
    if (!change) return change.error().message;
    const auto base = resolve_version(project_, change->base), candidate = resolve_version(project_, change->commit);
    if (!base || !candidate) return "";  // told of by whoever loads it
    return judging_change(base->project, candidate->project, *change);
  }
  void commit() const {
    for (const std::vector<std::string>& step : std::vector<std::vector<std::string>>{
             {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "a step"}})
      ASSERT_TRUE(run_git(root_.path().string(), step));
  }
  void link(const std::string& name, const std::string& to) const {
    std::filesystem::remove(root_.path() / name);
    std::filesystem::create_symlink(to, root_.path() / name);
  }

  TemporaryDirectory root_{};
  Project project_{};
};

TEST_F(JudgingChange, TheKernelAndHowItIsLaunchedAreItsOwn) {
  write("project/kernel.cu", "// faster\n");
  EXPECT_EQ(said(), "");
  EXPECT_EQ(said_of("grid = 1", "grid = 2"), "");
  EXPECT_EQ(said_of("block = 8", "block = 16"), "");
}

TEST_F(JudgingChange, RulesOfTheFileJudge) {
  EXPECT_NE(said_of("absolute = 1e-6", "absolute = 1"), "");
  EXPECT_NE(said_of("tiny = { n = 8 }", "tiny = { n = 4 }"), "");
  EXPECT_NE(said_of("default = 8", "default = 4"), "");
  EXPECT_NE(said_of("reference.cpp:run", "reference.cpp:other"), "");
  EXPECT_NE(said_of("[cuda]", "[correctness]\nrandom_workloads = 0\n[cuda]"), "");
  EXPECT_NE(said_of("[cuda]", "[thresholds]\nmax_iterations = 20\n[cuda]"), "");
  EXPECT_NE(said_of("block = 8", "block = 8\nmax_spill_bytes = 999"), "");
}

TEST_F(JudgingChange, AJudgeOutsideOfTheProjectJudgesWithAllThatLiesBesideIt) {
  write("judges/reference.cpp", "// kinder\n");
  EXPECT_EQ(said(), "judges/reference.cpp judges");
  write("judges/reference.cpp", "#include \"half.hpp\"  // see cudadent.toml\n");
  write("judges/half.hpp", "// kinder\n");
  EXPECT_EQ(said(), "judges/half.hpp judges");
}

TEST_F(JudgingChange, LinksJudgeByWhatTheyLeadTo) {
  std::string looser = configuration;
  looser.replace(looser.find("[cuda]"), 6, "[correctness]\nrandom_workloads = 0\n[cuda]");
  write("project/other.toml", looser);
  link("project/cudadent.toml", "other.toml");
  EXPECT_EQ(said(), "cudadent.toml changes what correctness is asked of");
  std::filesystem::remove(root_.path() / "project/cudadent.toml");
  write("project/cudadent.toml", configuration);
  write("project/tiles/wide.hpp", "\n");
  link("project/half.hpp", "tiles/wide.hpp");
  commit();
  write("project/tiles/wide.hpp", "// kinder\n");
  EXPECT_EQ(said(), "half.hpp judges");
}

TEST_F(JudgingChange, WhatACompilerFindsJudgesThoughNoTextNamesIt) {
  std::string text = configuration;
  text.replace(text.find("[cuda]"), 6, "[cpu]\ninclude = [\"include\"]\nflags = [\"-g\"]\n[cuda]");
  write("project/cudadent.toml", text);
  write("project/include/tile.hpp", "\n");
  write("judges/reference.cpp", "#include <cmath>\n");
  commit();
  write("project/include/tile.hpp", "// the kernel's\n");
  EXPECT_EQ(said(), "");
  write("project/include/features.h", "#define kinder 1\n#include_next <features.h>\n");  // <cmath> includes it
  EXPECT_EQ(said(), "what is compiled into the reference judges");
}

TEST_F(JudgingChange, AJudgeDoesNotBecomeAPartOfTheKernel) {
  write("project/reference.cpp", "\n");
  std::string text = configuration;
  text.replace(text.find("../judges/"), 10, "");
  write("project/cudadent.toml", text);
  commit();
  text.replace(text.find("\"kernel.cu\""), 11, "\"kernel.cu\", \"reference.cpp\"");
  text.replace(text.find("name = \"twice\"\ngrid"), 14, "name = \"twice\"\nsource = \"kernel.cu\"");
  write("project/cudadent.toml", text);
  EXPECT_EQ(said(), "cudadent.toml makes reference.cpp a part of the kernel, and it judges");
}

TEST_F(JudgingChange, HowFilesAreCheckedOutJudges) {
  write("project/.gitattributes", "*.hpp working-tree-encoding=UTF-16\n");
  EXPECT_EQ(said(), "project/.gitattributes says how files are checked out");
}

// The working directory is anybody's: a folder that is called like the commit is not the commit.
TEST_F(JudgingChange, ACommitIsNoFolderOfItsName) {
  const auto head = run_git(root_.path().string(), {"rev-parse", "HEAD"});
  ASSERT_TRUE(head);
  write(*head + "/cudadent.toml", configuration);
  write(*head + "/kernel.cu", "// slow\n");
  const auto where = std::filesystem::current_path();
  std::filesystem::current_path(root_.path());
  const auto base = resolve_version(project_, *head);
  std::filesystem::current_path(where);
  ASSERT_TRUE(base);
  EXPECT_TRUE(base->worktree);
}

// Nor does `git replace` put other content under its name.
TEST_F(JudgingChange, ACommitIsWhatItsHashSays) {
  const std::string root = root_.path().string();
  write("slow", "// slow\n");
  const auto slow = run_git(root, {"hash-object", "-w", "slow"});
  const auto blob = run_git(root, {"rev-parse", "HEAD:project/kernel.cu"});
  ASSERT_TRUE(slow && blob && run_git(root, {"replace", *blob, *slow}));
  const auto shown = run_git(root, {"show", "HEAD:project/kernel.cu"});
  ASSERT_TRUE(shown);
  EXPECT_EQ(*shown, "// reads cudadent.toml");
}

}  // namespace
}  // namespace flashmoe::workflow
