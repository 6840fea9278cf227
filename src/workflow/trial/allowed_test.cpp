// Which files of a project a proposal may change.
#include "workflow/trial/allowed.hpp"

#include <gtest/gtest.h>

#include <filesystem>

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

}  // namespace
}  // namespace flashmoe::workflow
