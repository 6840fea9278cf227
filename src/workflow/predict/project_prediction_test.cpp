// Projects of the examples, from their sources to a prediction: nvcc, the virtual GPU, nvdisasm, the model.
#include "workflow/predict/prediction.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "predict/walk.hpp"
#include "support/progress.hpp"
#include "support/tree_for_test.hpp"
#include "workflow/environment/nvdisasm.hpp"
#include "workflow/predict/nvdisasm.hpp"
#include "workflow/predict/ptx_run_json.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// In the build tree, where what was compiled stays for the next run.
Project example(const std::string& name) {
  const fs::path to = in_build("predicted_examples");
  fs::create_directories(to);
  fs::copy(in_sources("examples"), to,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing | fs::copy_options::skip_symlinks);
  auto project = load_project((to / name).string());
  EXPECT_TRUE(project) << project.error().to_string();
  for (std::string& directory : project->include_directories)  // of this repository, as seen from the original
    directory = (fs::path(in_sources("examples")) / name / directory).lexically_normal().string();
  return *project;
}

PredictionRun predicted(const Project& project) {
  Progress progress(prediction_steps, true);
  const auto run = predict_project(project, {.device = "virtual:l4", .workload = {}, .seed = 7}, progress);
  EXPECT_TRUE(run) << run.error().to_string();
  return run ? *run : PredictionRun{};
}

// A disassembler that prints what it is handed, and leaves a line for each time it was asked.
TEST(Nvdisasm, IsAskedOnceForTheSameBytes) {
  const fs::path at = fs::path(::testing::TempDir()) / ("nvdisasm-" + std::to_string(getpid()));
  fs::create_directories(at);
  const std::string program = (at / "nvdisasm").string();
  std::ofstream(program) << "#!/bin/sh\necho >> " << (at / "asked").string()
                         << "\nfor last; do :; done\ncat \"$last\"\n";
  fs::permissions(program, fs::perms::owner_all);
  const auto asked = [&] { return fs::exists(at / "asked") ? fs::file_size(at / "asked") : 0; };
  const auto write = [&](const std::string& file, const std::string& kernel) {
    std::ofstream(at / file) << "\t.target\tsm_89\n\n\t.section\t.text." << kernel << ",\"ax\",@progbits\n"
                             << kernel << ":\n.text." << kernel
                             << ":\n        /*0000*/                   EXIT ;        /* 0x000000000000794d */\n"
                                "                                                 /* 0x000fea0003800000 */\n";
    return (at / file).string();
  };
  const std::string first = write("a.cubin", "one");
  for (const std::string& cubin : {first, first, write("b.cubin", "one")}) {
    const auto sass = sass_of(program, cubin);
    ASSERT_TRUE(sass) << sass.error().to_string();
    EXPECT_EQ(sass->at(0).name, "one");
  }
  EXPECT_EQ(asked(), 1U);
  const auto other = sass_of(program, write("a.cubin", "two"));  // the file's content counts, not its name
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_EQ(other->at(0).name, "two");
  EXPECT_EQ(asked(), 2U);
  EXPECT_FALSE(sass_of(program, (at / "none.cubin").string()));
  fs::remove_all(at);
}

void expect_sound(const PredictionRun& run) {
  EXPECT_FALSE(run.launches.empty());
  for (const LaunchPrediction& launch : run.launches) {
    SCOPED_TRACE(launch.report.name);
    std::cout << "  " << run.project << ", " << launch.report.name << ": " << 100 * launch.unmatched_weight
              << " % unmatched\n";
    EXPECT_LE(launch.unmatched_weight, predict::most_unmatched_weight);
    EXPECT_GT(launch.prediction.cycles, 0);
    EXPECT_FALSE(launch.prediction.limiter.empty());
    double share = 0;
    for (const LinePressure& line : launch.lines) share += line.share;
    EXPECT_NEAR(share, 1, 1e-9);
  }
  EXPECT_EQ(run.evidence().kind, predicted_evidence);
  EXPECT_EQ(run.evidence().where, "l4");
}

TEST(Prediction, NaiveAttention) {
  const PredictionRun run = predicted(example("attention_naive"));
  expect_sound(run);
  const std::string text = prediction_text(run, {.lines = true});
  EXPECT_NE(text.find("kernel.cu"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing was measured"), std::string::npos) << text;
  EXPECT_EQ(prediction_text(run, {}).find("kernel.cu"), std::string::npos);
}

TEST(Prediction, SoftmaxAndMatmul) {
  expect_sound(predicted(example("cudadent/softmax")));
  expect_sound(predicted(example("cudadent/matmul")));
}

TEST(Prediction, ALargerGridThanRan) {
  const Project project = example("cudadent/softmax");
  const auto predicted_with = [&](const Grids& grids) {
    Progress progress(prediction_steps, true);
    return predict_project(
        project, {.device = "virtual:l4", .workload = {}, .seed = 7, .reference = nullptr, .grids = grids}, progress);
  };
  const auto as_it_ran = predicted_with({});
  ASSERT_TRUE(as_it_ran) << as_it_ran.error().to_string();
  ASSERT_EQ(as_it_ran->launches.size(), 1u);
  const LaunchReport& report = as_it_ran->launches[0].report;
  const predict::Grid ran{report.grid.at(0), report.grid.at(1), report.grid.at(2)};
  const auto same = predicted_with({ran});
  ASSERT_TRUE(same) << same.error().to_string();
  EXPECT_DOUBLE_EQ(same->cycles(), as_it_ran->cycles());
  const auto larger = predicted_with({{ran[0], ran[1], ran[2] * 64}});
  ASSERT_TRUE(larger) << larger.error().to_string();
  EXPECT_EQ(larger->launches[0].report.ctas(), 64 * report.ctas());
  EXPECT_GT(larger->cycles(), 2 * same->cycles());
  EXPECT_LT(larger->cycles(), 64 * same->cycles());
  EXPECT_FALSE(predicted_with({ran, ran})) << "two grids, one launch";
  EXPECT_FALSE(predicted_with({{ran[0] + 1, ran[1], ran[2]}})) << "no multiple";
}

TEST(Prediction, GridsAreThreeNumbers) {
  const auto grid = parse_grid("64,8,1");
  ASSERT_TRUE(grid);
  EXPECT_EQ(*grid, (predict::Grid{64, 8, 1}));
  for (const char* const text : {"", "64", "64,8", "64,8,1,", "64,8,0", "64,8,-1", "a,b,c", "64 8 1", "64,8,1x"}) {
    const auto refused = parse_grid(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, codes::usage_command_line);
  }
}

// The first design of the journey, and its end: tensor cores, asynchronous copies, a swizzle, split keys.
TEST(Prediction, StartAndEndOfTheJourneyInThisOrder) {
  Project project = example("attention_journey");
  const PredictionRun start = predicted(project);
  expect_sound(start);
  const auto point = parse_point(project, R"(rows = 16
splits = 2
warps = 1
load_bytes = 16
async = true
stages = 2
layout = 2
q_home = 2
mma = true
exp_form = 2
keys = 64
)",
                                 "point.toml");
  ASSERT_TRUE(point) << point.error().to_string();
  project.point = *point;
  const PredictionRun end = predicted(project);
  expect_sound(end);
  EXPECT_LT(end.cycles(), start.cycles());
}

TEST(Prediction, ASecondLaunchCostsWhatLiesBetween) {
  LaunchPrediction launch;
  launch.prediction.cycles = 3000;
  launch.prediction.boost = {.us = 2, .least_us = 1, .most_us = 3};
  launch.prediction.launch = {.stream_us = {1.6, "a source"}, .graph_us = {0.9, "a source"}};
  PredictionRun run{.boost_clock_mhz = 2000, .launches = {launch}};
  EXPECT_DOUBLE_EQ(run.cycles(), 4000);  // DRAM had more to do than the SMs
  run.launches.push_back(launch);
  EXPECT_DOUBLE_EQ(run.boost().us, 2 + 0.9 + 2);
  EXPECT_DOUBLE_EQ(run.boost().least_us, 1 + 0.9 + 1);
  EXPECT_DOUBLE_EQ(run.boost().most_us, 3 + 1.6 + 3);
  EXPECT_DOUBLE_EQ(run.cycles(), 9800);
  EXPECT_EQ(run.sustained().us, 0);
}

TEST(Prediction, AMissingToolIsNamedWithItsRemedy) {
  const char* const before = std::getenv("NVDISASM");
  const std::string kept = before == nullptr ? "" : before;
  setenv("NVDISASM", "/nowhere/nvdisasm", 1);
  const auto found = find_nvdisasm();
  kept.empty() ? unsetenv("NVDISASM") : setenv("NVDISASM", kept.c_str(), 1);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, codes::environment_no_nvdisasm);
  EXPECT_NE(found.error().message.find("/nowhere/nvdisasm"), std::string::npos);
  EXPECT_NE(found.error().fix.find("pip install"), std::string::npos);
}

TEST(PtxRunJson, ReadsOutcomesAndCounts) {
  const auto run = ptx_run_from(R"({"kernel":"k","ptx_lines":[{"pc":0,"ptx_line":5,"inst_executed":3},
    {"pc":1,"ptx_line":6,"inst_executed":3,"shared_requests":2,"shared_wavefronts":8},{"pc":3,"ptx_line":9,"inst_executed":1}],
    "paths":{"totals_by_cta":[[2,7,1,64],[1,9,2,96]],"ctas":[{"cta":2,"warps":[
      {"branches":[{"pc":1,"outcomes":"t2nb"}],"stretches":[[0,1,3],[1,3,1]]}]}]}})");
  ASSERT_TRUE(run) << run.error().to_string();
  ASSERT_EQ(run->totals.size(), 3u);
  EXPECT_EQ(run->totals[2].instructions, 9u);
  EXPECT_EQ(run->lines.at(6).shared_wavefronts, 8u);
  const predict::PtxWarp& warp = run->ctas.at(0).warps.at(0);
  EXPECT_EQ(warp.executed.at(5), 3u);
  EXPECT_EQ(warp.executed.at(6), 4u);
  EXPECT_EQ(warp.executed.at(9), 1u);
  using predict::Outcome;
  EXPECT_EQ(warp.branches.at(6),
            (std::vector<predict::OutcomeRun>{{Outcome::taken, 2}, {Outcome::not_taken, 1}, {Outcome::both, 1}}));
}

TEST(PtxRunJson, RefusesWhatItCannotRead) {
  EXPECT_FALSE(ptx_run_from("{}"));
  EXPECT_FALSE(ptx_run_from("no JSON"));
  for (const char* outcomes : {"x", "t0", "3t", "t99999999999"})
    EXPECT_FALSE(ptx_run_from(std::string(R"({"ptx_lines":[{"pc":1,"ptx_line":6}],"paths":{"ctas":[{"warps":[
      {"branches":[{"pc":1,"outcomes":")") +
                              outcomes + R"("}]}]}]}})"))
        << outcomes;
  EXPECT_FALSE(ptx_run_from(R"({"paths":{"totals_by_cta":[[4000000000000,1,1,1]]}})"));
}

}  // namespace
}  // namespace flashmoe::workflow
