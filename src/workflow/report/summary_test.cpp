#include "workflow/report/summary.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "workflow/journal/listing.hpp"

namespace flashmoe::workflow {
namespace {

Json compare_record(const std::string& id, const std::string& verdict, double gain) {
  return {{"version", 1},
          {"id", id},
          {"kind", "compare"},
          {"time", "2026-11-15T05:00:00.000000Z"},
          {"run", "tuesday"},
          {"project", "softmax"},
          {"commit", "0123456789abcdef0123456789abcdef01234567"},
          {"dirty", false},
          {"device", "cpu"},
          {"verdict", verdict},
          {"seconds", 30},
          {"cost", {{"machine", 0.01}, {"agent", 0.1}, {"total", 0.11}}},
          {"base", {{"name", "HEAD"}}},
          {"candidate", {{"name", "."}}},
          {"note", "wider | loads"},
          {"workload", "target"},
          {"gain", {{"mean", gain}, {"lower", gain - 0.01}, {"upper", nullptr}}},
          {"pairs_used", 7},
          {"recipe", {{"argv", {"compare"}}}}};
}

Json gate_record(const std::string& id, double speedup, const std::string& outcome) {
  return {{"version", 1},
          {"id", id},
          {"kind", "gate"},
          {"time", "2026-11-15T06:00:00.000000Z"},
          {"run", "tuesday"},
          {"project", "softmax"},
          {"commit", "0123456789abcdef0123456789abcdef01234567"},
          {"dirty", false},
          {"device", "cpu"},
          {"verdict", outcome},
          {"seconds", 12},
          {"cost", {{"machine", 0.02}, {"agent", 0.2}, {"total", 0.22}}},
          {"gates",
           {{{"gate", "build"}, {"outcome", "holds"}, {"summary", "builds"}},
            {{"gate", "performance"},
             {"outcome", outcome},
             {"summary", "0.9x"},
             {"findings", {{{"severity", "error"}, {"what", "slow"}, {"fix", "profile it"}}}},
             {"data", {{"workloads", {{"target", {{"ratio", {{"mean", speedup}, {"lower", speedup - 0.05}}}}}}}}}}}}};
}

Project planned_project() {
  Project project;
  project.thresholds.target_workload = "target";
  project.thresholds.max_minutes = 60;
  project.cost = {.machine_per_hour = 0.8, .agent_per_hour = 10};
  project.machine.stop = "cloud stop";
  return project;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, AListLineSaysWhatItWasAndWhatItCost) {
  const std::string line = list_line(compare_record("aaaabbbbcccc", "KEEP", 0.0521));
  for (const char* part :
       {"aaaabbbbcccc", "KEEP", "0123456789ab", "+5.21 %", "+4.21 %", "unbounded", "0.1100", "30.0"}) {
    EXPECT_TRUE(has(line, part)) << part << " in " << line;
  }
  EXPECT_TRUE(has(list_line(gate_record("ddddeeeeffff", 1.1, "fails")), "build holds, performance fails"));
}

TEST(Report, ReadsRecordsSomebodyBroke) {
  for (const char* text : {"{}", R"({"kind":5,"gain":"x","gates":{"a":1},"cost":[1],"base":7,"run":{}})",
                           R"({"kind":"gate","gates":[1,"x",null],"run":"r"})",
                           R"({"kind":"compare","gain":{"mean":"much"},"run":"r","cost":{"machine":"x"}})"}) {
    const Json record = Json::parse(text);
    EXPECT_FALSE(list_line(record).empty());
    EXPECT_FALSE(side_by_side_text(side_by_side(record, Json::object())).empty());
  }
  const Json odd = Json::parse(R"({"id":"x","kind":"compare","gain":{"mean":"much"},"run":"r","cost":7})");
  EXPECT_FALSE(markdown_of(run_summary({odd}, "r", std::nullopt)).empty());
}

TEST(Report, SideBySideShowsWhatDiffersAndByHowMuch) {
  Json a = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  Json b = compare_record("bbbbccccdddd", "REVERT", 0.10);
  a["samples"] = {1, 2, 3};
  const Json difference = side_by_side(a, b);
  std::map<std::string, Json> rows;
  for (const Json& row : difference["differs"]) rows[row["key"].get<std::string>()] = row;
  EXPECT_TRUE(rows.contains("verdict"));
  EXPECT_NEAR(rows.at("gain.mean")["ratio"].get<double>(), 2, 1e-9);
  EXPECT_FALSE(rows.contains("id")) << "bookkeeping is no difference";
  EXPECT_FALSE(rows.contains("samples[0]"));
  EXPECT_FALSE(rows.contains("commit"));
  EXPECT_GT(difference["same"].get<int>(), 5);
}

TEST(Report, ARunIsFoundByNameOrByOneOfItsRecords) {
  const std::vector<Json> records{compare_record("aaaabbbbcccc", "KEEP", 0.05)};
  EXPECT_EQ(*find_run(records, "tuesday"), "tuesday");
  EXPECT_EQ(*find_run(records, "aaaa"), "tuesday");
  const auto none = find_run(records, "zzz");
  ASSERT_FALSE(none);
  EXPECT_TRUE(has(none.error().message, "tuesday"));
}

TEST(Summary, HasBeforeAfterChangesTimeCostAndGoals) {
  const std::vector<Json> records{gate_record("a1", 0.8, "fails"), compare_record("b1", "KEEP", 0.10),
                                  compare_record("b2", "KEEP", 0.20), compare_record("b3", "INCONCLUSIVE", 0.01),
                                  gate_record("a2", 1.06, "fails")};
  const Json summary = run_summary(records, "tuesday", planned_project());
  EXPECT_NEAR(summary["kept_gain"].get<double>(), 1.1 * 1.2 - 1, 1e-9) << "only what was kept counts";
  EXPECT_NEAR(summary["before"]["target"]["speedup"].get<double>(), 0.8, 1e-9);
  EXPECT_NEAR(summary["after"]["target"]["speedup"].get<double>(), 1.06, 1e-9);
  EXPECT_NEAR(summary["cost"]["total"].get<double>(), 2 * 0.22 + 3 * 0.11, 1e-9);
  EXPECT_NEAR(summary["time"]["seconds"].get<double>(), 2 * 12 + 3 * 30, 1e-9);
  const std::string markdown = markdown_of(summary);
  for (const char* part :
       {"# Run tuesday of softmax", "## Before and after", "0.800x", "1.060x", "## Changes", "wider \\| loads", "KEEP",
        "## Time and cost", "1.9 min of 60 min planned", "3 comparisons of 3 iterations", "$0.7700", "## Next goals",
        "profile it", "1.20x on target: the lower bound is at 1.010x", "stayed open", "cloud stop"}) {
    EXPECT_TRUE(has(markdown, part)) << part << "\n" << markdown;
  }
}

TEST(Summary, AComparisonThatWentOnCountsOnce) {
  Json stopped = compare_record("b1", "PREEMPTED", 0.01);
  Json ended = compare_record("b2", "KEEP", 0.10);
  for (Json* record : {&stopped, &ended}) {
    (*record)["key"] = "k";
    (*record)["seed"] = 7;
  }
  const Json summary = run_summary({stopped, ended}, "tuesday", std::nullopt);
  ASSERT_EQ(summary["changes"].size(), 1U);
  EXPECT_EQ(summary["changes"][0]["verdict"], "KEEP");
  EXPECT_TRUE(summary["next_goals"].empty());
}

TEST(Summary, OfARunWithoutRecordsSaysSo) {
  const std::string markdown = markdown_of(run_summary({}, "nothing", std::nullopt));
  EXPECT_TRUE(has(markdown, "No comparison"));
  EXPECT_TRUE(has(markdown, "Nothing is open"));
}

TEST(KnownGood, KeepsTheRecipeAndRefusesWhatIsNotGood) {
  const auto good = known_good_of(compare_record("aaaabbbbcccc", "KEEP", 0.05));
  ASSERT_TRUE(good);
  EXPECT_EQ((*good)["of"], "aaaabbbbcccc");
  EXPECT_EQ((*good)["recipe"]["argv"][0], "compare");
  EXPECT_FALSE(known_good_of(compare_record("aaaabbbbcccc", "REVERT", 0.05)));
  Json dirty = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  dirty["dirty"] = true;
  const auto refused = known_good_of(dirty);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(has(refused.error().fix, "commit"));
}

}  // namespace
}  // namespace flashmoe::workflow
