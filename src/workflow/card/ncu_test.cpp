// There is no GPU to run ncu on. Its place is taken by a script that is called as ncu is, and that of the package
// ncu-report by a module with the documented interface (load_report, ranges, actions, metrics): both are fakes, and
// only what this side does with them is tested. The real package is asked what it says of a file that is no report.
#include "workflow/card/ncu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/temporary_directory.hpp"
#include "support/tree_for_test.hpp"
#include "workflow/card/counters_map.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* fake_module = R"PY(
class Metric:
    def __init__(self, value, unit):
        self._value, self._unit = value, unit
    def value(self):
        return self._value
    def unit(self):
        return self._unit

class IAction:
    NameBase_MANGLED = 2
    def __init__(self, name, metrics):
        self._name, self._metrics = name, metrics
    def name(self, base=0):
        return self._name if base == 2 else "k"
    def metric_names(self):
        return tuple(self._metrics)
    def metric_by_name(self, name):
        return self._metrics.get(name)

def load_report(path):
    if open(path).read() != "a fake report\n":
        raise RuntimeError("not of this fake")
    return [[IAction("_Z1kv", {
        "device__attribute_display_name": Metric("NVIDIA L4", ""),
        "device__attribute_compute_capability_major": Metric(8, ""),
        "device__attribute_compute_capability_minor": Metric(9, ""),
        "device__attribute_multiprocessor_count": Metric(58, ""),
        "launch__grid_dim_x": Metric(4.0, ""), "launch__block_dim_x": Metric(128.0, ""),
        "launch__registers_per_thread": Metric(40.0, "register/thread"),
        "smsp__inst_executed.sum": Metric(1000.0, "inst"),
        "dram__bytes_read.sum": Metric(1.5, "Mbyte"),
        "lts__t_sector_hit_rate.pct": Metric(float("nan"), "%")})]]
)PY";

class Ncu : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(modules());
    std::ofstream(modules() + "/ncu_report.py") << fake_module;
  }
  [[nodiscard]] std::string modules() const { return (directory_.path() / "modules").string(); }
  [[nodiscard]] std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  // ncu as far as this test goes: `body` sees the name of the report as $report.
  std::string fake_ncu(const std::string& body) const {
    const std::string path = file("ncu");
    std::ofstream(path)
        << "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  if [ \"$1\" = --export ]; then report=$2; fi\n  shift\ndone\n"
        << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  Result<NcuReport> run(const std::string& body, std::chrono::milliseconds limit = std::chrono::seconds(60)) const {
    Progress progress(1, true);
    return run_ncu(fake_ncu(body), {.command = {"program", "argument"}, .sm = 89, .limit = limit}, progress,
                   {modules()});
  }

  const TemporaryDirectory directory_;
};

TEST_F(Ncu, IsAskedForTheMetricsOfTheMapAndNothingElse) {
  const auto argv =
      ncu_command("/opt/ncu", {.command = {"program", "argument"}, .sm = 89, .launches = 3}, "/tmp/call.ncu-rep");
  const auto after = [&](const std::string& option) {
    const auto found = std::find(argv.begin(), argv.end(), option);
    return found == argv.end() || found + 1 == argv.end() ? std::string("none") : *(found + 1);
  };
  EXPECT_EQ(argv.front(), "/opt/ncu");
  EXPECT_EQ(after("--launch-count"), "3");
  EXPECT_EQ(after("--target-processes"), "all");
  EXPECT_EQ(after("--replay-mode"), "kernel");
  EXPECT_EQ(after("--clock-control"), "none");
  EXPECT_EQ(after("--cache-control"), "all");
  EXPECT_EQ(after("--export"), "/tmp/call.ncu-rep");
  const std::string metrics = after("--metrics") + ",";
  for (const std::string& metric : wanted_card_metrics(89))
    EXPECT_NE(metrics.find(metric + ","), std::string::npos) << metric;
  EXPECT_EQ(std::find(argv.begin(), argv.end(), "--set"), argv.end());
  EXPECT_EQ(argv[argv.size() - 2], "program");
  EXPECT_EQ(argv.back(), "argument");
}

TEST_F(Ncu, ItsReportBecomesLaunches) {
  const auto report = run("echo 'a fake report' > \"$report\"");
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->card.name, "NVIDIA L4");
  EXPECT_EQ(report->card.sm, 89);
  EXPECT_EQ(report->card.sm_count, 58);
  ASSERT_EQ(report->launches.size(), 1U);
  const CardLaunch& launch = report->launches[0];
  EXPECT_EQ(launch.kernel, "_Z1kv");
  EXPECT_EQ(launch.name, "k");
  EXPECT_EQ(launch.grid, (std::array<std::int64_t, 3>{4, 1, 1}));
  EXPECT_EQ(launch.block, (std::array<std::int64_t, 3>{128, 1, 1}));
  EXPECT_EQ(launch.facts.registers, 40);
  EXPECT_EQ(launch.counted.at("smsp__inst_executed.sum"), 1000);
  EXPECT_EQ(launch.counted.at("dram__bytes_read.sum"), 1.5e6);          // a scaled unit
  EXPECT_FALSE(launch.counted.contains("lts__t_sector_hit_rate.pct"));  // no number

  CardCall call{.card = report->card, .launches = {{.kernel = "_Z1kv"}}};
  ASSERT_TRUE(take_counters(call, *report));
  const ProfileRun run = card_profile(call);
  EXPECT_EQ(run.counted_by, "ncu");
  EXPECT_TRUE(run.degraded.empty());
  const LaunchReport& counted = run.launches.at(0).report;
  EXPECT_EQ(counted.instructions(), 1000);
  EXPECT_EQ(counted.metrics.at("vgpu__dram_bytes_read.sum"), 1.5e6);
  EXPECT_TRUE(counted.missing.contains("vgpu__l2_hit_rate.pct"));
}

TEST_F(Ncu, CountersOfOtherLaunchesAreNotTaken) {
  const auto report = run("echo 'a fake report' > \"$report\"");
  ASSERT_TRUE(report) << report.error().to_string();
  CardCall two{.launches = {{.kernel = "_Z1kv"}, {.kernel = "_Z1kv"}}};
  const auto more = take_counters(two, *report);
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("counted 1 launches where the call makes 2"), std::string::npos);
  CardCall other{.launches = {{.kernel = "_Z1xv"}}};
  const auto wrong = take_counters(other, *report);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("is of _Z1kv where the call launches _Z1xv"), std::string::npos);
  EXPECT_TRUE(other.launches[0].counted.empty());
  EXPECT_EQ(other.counted_by, CountedBy::nobody);
}

TEST_F(Ncu, LockedCountersSayWhatTheAdministratorMustDo) {
  const auto refused = run(
      "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters "
      "on the target device 0.'; exit 1");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ncu may not read the GPU's performance counters"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().fix.find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos);
}

TEST_F(Ncu, WhatGoesWrongIsSaid) {
  const auto failed = run("echo '==ERROR== no such chip' >&2; exit 9");
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("exit code 9 and left no report"), std::string::npos) << failed.error().message;
  EXPECT_NE(failed.error().message.find("no such chip"), std::string::npos);
  const auto silent = run("true");
  ASSERT_FALSE(silent);
  EXPECT_NE(silent.error().message.find("left no report"), std::string::npos) << silent.error().message;
  const auto garbage = run("echo nonsense > \"$report\"");
  ASSERT_FALSE(garbage);
  EXPECT_NE(garbage.error().message.find("RuntimeError: not of this fake"), std::string::npos)
      << garbage.error().message;
  const auto late = run("sleep 600", std::chrono::milliseconds(300));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("timed out"), std::string::npos) << late.error().message;
}

TEST_F(Ncu, WithoutThePackageItsInstallationIsNamed) {
  const auto read = read_ncu_report(file("no.ncu-rep"), {});
  if (read || read.error().fix.find("pip install") == std::string::npos)
    GTEST_SKIP() << "the Python of this test has ncu-report";
  EXPECT_NE(read.error().fix.find("-m pip install ncu-report"), std::string::npos) << read.error().to_string();
}

#ifdef HAS_NCU_REPORT
TEST_F(Ncu, TheRealPackageFindsNothingInWhatIsNoReport) {
  setenv("CUDADENT_PYTHON", in_sources("build/venv-clients/bin/python").c_str(), 1);
  std::ofstream(file("garbage.ncu-rep")) << std::string(3000, 'x');
  const auto garbage = read_ncu_report(file("garbage.ncu-rep"));
  const auto missing = read_ncu_report(file("missing.ncu-rep"));
  unsetenv("CUDADENT_PYTHON");
  ASSERT_FALSE(garbage);
  EXPECT_NE(garbage.error().message.find("there is no launch in it"), std::string::npos) << garbage.error().to_string();
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("FileNotFoundError"), std::string::npos) << missing.error().to_string();
}
#else
TEST_F(Ncu, TheRealPackageIsNeeded) {
  FAIL() << "no build/venv-clients with ncu-report: run .ci/setup";
}
#endif

}  // namespace
}  // namespace flashmoe::workflow
