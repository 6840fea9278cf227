// point.toml: what it says, what it leaves out, and what every mistake in it is told.
#include "workflow/project/point.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* toml = R"toml(name = "demo"
reference = "reference.cpp:reference"

[params]
n = 64

[inputs]
x = "f32[n]"

[outputs]
y = "f32[n]"

[workloads]
tiny = { n = 8 }
target = { n = 1024 }

[tunables]
width = { choices = [2, 4, 16], phase = "memory" }
async = { choices = [false, true], phase = "memory", requires = "width >= 4 or not async" }
stages = { range = [1, 3] }

[[tunable_rules]]
when = "stages > 1"
then = "async"
because = "one buffer cannot be filled while it is read"

[scratch]
partial = "f32[stages, n]"

[cuda]
sources = ["kernel.cu"]
launch = ["first<{width}, {async}>", "second"]

[[cuda.instances]]
name = "first<{width}, {async}>"
grid = "ceil_div(n, width)"
block = "32 * stages"
args = ["x", "y", "partial", "i32 width"]

[[cuda.instances]]
name = "second"
grid = 1
block = 32
args = ["partial", "y"]
when = "stages > 1 and n > 8"
)toml";

Project demo() {
  const auto project = parse_project(toml, "cudadent.toml");
  EXPECT_TRUE(project) << project.error().to_string();
  return *project;
}

TEST(Point, WhatIsLeftOutHasItsDefault) {
  const Project project = demo();
  EXPECT_EQ(project.point, (Values{{"width", 2}, {"async", 0}, {"stages", 1}}));
  const auto point = parse_point(project, "width = 16\n", "point.toml");
  ASSERT_TRUE(point) << point.error().to_string();
  EXPECT_EQ(*point, (Values{{"width", 16}, {"async", 0}, {"stages", 1}}));
  EXPECT_EQ(*parse_point(project, "", "point.toml"), project.point);
}

TEST(Point, OneChangeIsOneLine) {
  const Project project = demo();
  Values point = project.point;
  EXPECT_EQ(point_text(project, point), "width = 2\nasync = false\nstages = 1\n");
  point["width"] = 4;
  point["async"] = 1;
  EXPECT_EQ(point_text(project, point), "width = 4\nasync = true\nstages = 1\n");
  EXPECT_EQ(*parse_point(project, point_text(project, point), "point.toml"), point);
}

TEST(Point, MistakesAreToldWithTheirPlace) {
  const Project project = demo();
  const std::vector<std::pair<std::string, std::string>> cases{
      {"width = 4\nstage = 2\n",
       "point.toml:2:1: stage: is no tunable; tunables are width, async, stages (fix: did you mean 'stages'? or remove "
       "it, or declare it under [tunables])"},
      {"width = 8\n",
       "point.toml:1:1: width: is 8; the choices of 'width' are 2, 4, 16 (fix: use one of them, or add it to "
       "tunables.width)"},
      {"async = 1\n", "point.toml:1:1: async: is not true or false (fix: the choices of 'async' are false, true)"},
      {"width = 2.0\n", "point.toml:1:1: width: is not an integer (fix: the choices of 'width' are 2, 4, 16)"},
      {"width = 16\nstages = 2\n",
       "point.toml:2:1: stages: the point breaks tunable_rules[0]: where stages > 1, async must hold (one buffer "
       "cannot "
       "be filled while it is read) (fix: change one of its tunables; the rule is in line 22 of cudadent.toml)"},
      {"async = true\n",
       "point.toml:1:1: async: the point breaks tunables.async.requires: width >= 4 or not async must hold (fix: "
       "change "
       "one of its tunables; the rule is in line 19 of cudadent.toml)"},
      {"width = \n",
       "point.toml:1:9: is not TOML: Error while parsing key-value pair: expected value, saw '\\n' (fix: write lines "
       "such as rows = 64)"},
  };
  for (const auto& [text, says] : cases) {
    const auto point = parse_point(project, text, "point.toml");
    ASSERT_FALSE(point) << text;
    EXPECT_EQ(point.error().to_string(), says);
  }
}

TEST(Point, ReachesCompilersNamesAndGeometry) {
  const ProjectForTest at;
  at.write("cudadent.toml", toml);
  at.write("kernel.cu", "");
  at.write("reference.cpp", "");
  at.write("point.toml", "width = 16\nasync = true\n");
  const auto project = load_project(at.project.directory);
  ASSERT_TRUE(project) << project.error().to_string();
  EXPECT_EQ(point_flags(*project), (std::vector<std::string>{"-DWIDTH=16", "-DASYNC=1", "-DSTAGES=1"}));
  EXPECT_EQ(project->instances[0].name, "first<16, true>");
  EXPECT_EQ(project->cuda_launch[0], "first<16, true>");
  EXPECT_EQ(*evaluate("ceil_div(n, width)", with_point(*project, project->workloads[1].values)), 64);

  Values moved = project->point;
  moved["stages"] = 3;
  ASSERT_TRUE(write_point(*project, moved));
  EXPECT_EQ(load_project(at.project.directory)->point, moved);
  std::ifstream stream(at.project.directory + "/point.toml");
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(stream), {}}), "width = 16\nasync = true\nstages = 3\n");

  at.write("point.toml", "stages = 3\n");
  const auto illegal = load_project(at.project.directory);
  ASSERT_FALSE(illegal);
  EXPECT_EQ(illegal.error().file, at.project.directory + "/point.toml");
  EXPECT_EQ(illegal.error().line, 1);
}

TEST(Point, SingleMovesAreLegalAndDifferInOneValue) {
  const Project project = demo();
  const auto text = [&](const Values& point) { return point_text(project, point); };
  std::set<std::string> seen;
  for (const Values& move : single_moves(project, project.point)) seen.insert(text(move));
  EXPECT_EQ(seen, (std::set<std::string>{"width = 4\nasync = false\nstages = 1\n",
                                         "width = 16\nasync = false\nstages = 1\n"}));
  EXPECT_EQ(single_moves(project, {{"width", 4}, {"async", 1}, {"stages", 1}}).size(), 4U);
}

}  // namespace
}  // namespace flashmoe::workflow
