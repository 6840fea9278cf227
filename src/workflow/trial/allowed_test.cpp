// Which files of a project a proposal may change.
#include "workflow/trial/allowed.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_directory.hpp"
#include "workflow/compare/git.hpp"

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
    for (const std::vector<std::string>& step : std::vector<std::vector<std::string>>{
             {"init", "-q"},
             {"add", "."},
             {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "start"}})
      ASSERT_TRUE(run_git(root_.path().string(), step));
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name) << text;
  }
  // What is said of the tree with this part of cudadent.toml replaced.
  [[nodiscard]] std::string said_of(const std::string& part, const std::string& by) const {
    std::string text = configuration;
    text.replace(text.find(part), part.size(), by);
    write("project/cudadent.toml", text);
    return said();
  }
  [[nodiscard]] std::string said() const {
    const auto change = take_snapshot(project_);
    return change ? judging_change(project_, *change) : change.error().message;
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

}  // namespace
}  // namespace flashmoe::workflow
