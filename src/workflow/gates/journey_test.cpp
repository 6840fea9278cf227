// examples/attention_journey: every legal point can be reached from the first design by changing one value at a time,
// points drawn at random are right with every check on, and there is an end worth the way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <stdexcept>

#include "support/tree_for_test.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/journal/gate_record.hpp"
#include "workflow/project/point.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* device = "virtual:l4";

// In the build tree, where what was compiled stays for the next run.
Project journey() {
  const fs::path from = in_sources("examples/attention_journey");
  const fs::path to = in_build("journey/attention_journey");
  for (const char* name : {"cudadent.toml", "point.toml", "attention.cu", "tile.cuh", "reference.cpp",
                           "torch_baseline.py", "../cudadent/attention/half.hpp"}) {
    const fs::path copy = (to / name).lexically_normal();
    fs::create_directories(copy.parent_path());
    fs::copy_file(from / name, copy, fs::copy_options::overwrite_existing);
  }
  auto project = load_project(to.string());
  if (!project) throw std::runtime_error(project.error().to_string());
  for (std::string& directory : project->include_directories) {
    directory = (from / directory).lexically_normal().string();
  }
  project->include_directories.push_back((to / "../cudadent/attention").lexically_normal().string());
  return *project;
}

std::string line_of(const Project& project, const Values& point) {
  std::string text = point_text(project, point);
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

// What no rule names may be changed at any point: such a tunable multiplies the points and hides none of them.
bool is_in_a_rule(const Project& project, const Tunable& tunable) {
  for (const TunableRule& rule : project.tunable_rules) {
    Values without = project.point;
    without.erase(tunable.name);
    if (!evaluate(rule.when, without) || !evaluate(rule.then, without)) return true;
  }
  return false;
}

TEST(Journey, EveryLegalPointIsReachedByChangingOneValueAtATime) {
  Project project = journey();
  EXPECT_EQ(project.point, default_point(project)) << "the journey begins where the defaults are";
  double free_choices = 1;
  double all_points = 1;
  std::vector<Tunable> bound;
  for (const Tunable& tunable : project.tunables) {
    if (is_in_a_rule(project, tunable)) {
      bound.push_back(tunable);
      all_points *= static_cast<double>(tunable.choices.size());
    } else {
      free_choices *= static_cast<double>(tunable.choices.size());
    }
  }
  project.tunables = bound;
  const Values start = default_point(project);
  std::set<Values> seen{start};
  std::vector<Values> open{start};
  while (!open.empty()) {
    const Values point = open.back();
    open.pop_back();
    for (const Values& move : single_moves(project, point)) {
      if (seen.insert(move).second) open.push_back(move);
    }
  }
  double legal = 0;
  Values point;
  for (double n = 0; n < all_points; ++n) {
    double rest = n;
    for (const Tunable& tunable : bound) {
      const auto choices = static_cast<double>(tunable.choices.size());
      point[tunable.name] = tunable.choices[static_cast<std::size_t>(std::fmod(rest, choices))];
      rest = std::floor(rest / choices);
    }
    if (broken_rule(project, point) != nullptr) continue;
    ++legal;
    EXPECT_TRUE(seen.contains(point)) << "cannot be reached: " << line_of(project, point);
  }
  fmt::print("{:.0f} legal points\n", legal * free_choices);
  EXPECT_GE(legal * free_choices, 2000);
}

Values random_point(const Project& project, std::mt19937_64& random) {
  Values point;
  do {
    for (const Tunable& tunable : project.tunables) {
      point[tunable.name] = tunable.choices[random() % tunable.choices.size()];
    }
  } while (broken_rule(project, point) != nullptr);
  return point;
}

std::string findings_of(const GateRun& run) {
  std::string text = run.summary;
  for (const GateResult& gate : run.gates) {
    for (const Finding& finding : gate.findings) {
      if (finding.severity == Severity::error) text += fmt::format("\n  {} at {}", finding.what, finding.where);
    }
  }
  return text;
}

void random_points_are_right(int count, std::uint64_t seed) {
  Project project = journey();
  // A tile with room, and rows and keys that end within one.
  project.workloads = {{.name = "tiny", .values = {{"B", 1}, {"H", 1}, {"S", 16}, {"D", 64}}},
                       {.name = "edges", .values = {{"B", 1}, {"H", 2}, {"S", 77}, {"D", 64}}}};
  project.thresholds.small_workload = "tiny";
  project.thresholds.target_workload = "edges";
  project.random_workloads = 0;
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    project.point = random_point(project, random);
    fmt::print("{}\n", line_of(project, project.point));
    for (const char* gate : {"build", "correctness"}) {
      Progress quiet(static_cast<int>(all_gates().size()), true);
      const GateRun run =
          run_gates(project, {.device = device, .only = gate, .seed = seed + 1, .record = false}, quiet);
      EXPECT_EQ(run.outcome, Outcome::holds) << line_of(project, project.point) << "\n" << findings_of(run);
      const auto* record = run.record.as<GateRecord>();
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(record->point, project.point);
    }
  }
}

TEST(Journey, RandomLegalPointsAreRight) {
  random_points_are_right(3, 1);  // whose large values have two scores of a row nearly the same
}
// Minutes of compiling and checking: for the night.
TEST(Journey, DISABLED_ManyRandomLegalPointsAreRight) {
  random_points_are_right(60, 1);
}

// A launch without any such access has no such counter.
double counted(const LaunchReport& launch, const std::string& name, double otherwise) {
  const auto found = launch.metrics.find(name);
  return found == launch.metrics.end() ? otherwise : found->second;
}

// Warp instructions of the SM with the most CTAs, where all CTAs do about the same.
double instructions_of_the_busiest_sm(const LaunchReport& launch) {
  double ctas = 1;
  for (const std::int64_t extent : launch.grid) ctas *= static_cast<double>(extent);
  return launch.metrics.at("vgpu__ptx_inst_executed.sum") / ctas * std::ceil(ctas / launch.sms);
}

ProfileRun profile_at(Project project, const std::string& point) {
  const auto parsed = parse_point(project, point, "point.toml");
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  if (!parsed) return {};
  project.point = *parsed;
  Progress quiet(profile_steps, true);
  const auto run = run_profile(project, {.device = device, .seed = 7}, quiet);
  EXPECT_TRUE(run) << run.error().to_string();
  return run ? *run : ProfileRun{};
}

TEST(Journey, TheEndIsWorthTheWay) {
  const Project project = journey();
  const ProfileRun first = profile_at(project, "");
  ASSERT_EQ(first.launches.size(), 1U);
  EXPECT_LT(first.launches[0].report.waves, 1);
  const double before = instructions_of_the_busiest_sm(first.launches[0].report);

  const ProfileRun last = profile_at(project, R"(rows = 16
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
)");
  ASSERT_EQ(last.launches.size(), 2U);
  EXPECT_TRUE(last.findings.empty()) << last.findings[0].what;
  double after = 0;
  for (const LaunchProfile& launch : last.launches) {
    EXPECT_EQ(counted(launch.report, "vgpu__shared_bank_conflicts.sum", 0), 0) << launch.report.kernel;
    EXPECT_EQ(counted(launch.report, "vgpu__coalescing_efficiency.pct", 0), 100) << launch.report.kernel;
    EXPECT_EQ(counted(launch.report, "vgpu__local_requests.sum", 0), 0) << launch.report.kernel;
    after += instructions_of_the_busiest_sm(launch.report);
  }
  fmt::print("warp instructions of the busiest SM: {:.0f} at first, {:.0f} at last\n", before, after);
  EXPECT_LE(10 * after, before);
}

}  // namespace
}  // namespace flashmoe::workflow
