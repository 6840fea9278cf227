#include "workflow/report/run_report.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/temporary_directory.hpp"
#include "workflow/journal/records_for_test.hpp"
#include "workflow/report/axis.hpp"
#include "workflow/report/drawing.hpp"
#include "workflow/report/html.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/report/sections.hpp"

namespace flashmoe::workflow {
namespace {

RunReport report_of(const std::vector<Record>& records) {
  Progress progress(1, true);
  auto report = make_report(records, std::nullopt, {}, progress);
  EXPECT_TRUE(report);
  return report ? std::move(*report) : RunReport{};
}

TEST(Markup, WordsAreTextWhateverTheySay) {
  EXPECT_EQ(markup_text("<a href=\"x\" b='y'>&"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
  EXPECT_EQ(markup_text("a\tb\nc"), "a b c");
  EXPECT_EQ(markup_text("\033[2J"), "\xEF\xBF\xBD[2J") << "control characters";
  EXPECT_EQ(markup_text("\xE2\x80\xAE"), "\xEF\xBF\xBD") << "right to left";
  EXPECT_EQ(markup_text("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "an overlong slash";
  EXPECT_EQ(markup_text("\xED\xA0\x80").find('\xED'), std::string::npos) << "a surrogate";
  EXPECT_EQ(markup_text("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "cut short";
  EXPECT_EQ(markup_text("Größe µs €"), "Größe µs €");
}

TEST(Markup, AnAddressIsNoLink) {
  EXPECT_EQ(markdown_text("see http://a.b, https://a.b or www.a.b: x"),
            "see http\\://a.b, https\\://a.b or www\\.a.b: x");
}

TEST(Report, AChangeSaysSoMuchAndNoMore) {
  Record record = compare_record("b1", "KEEP", 0.10);
  std::get<CompareRecord>(record.body).note = std::string(5000, 'y');
  EXPECT_LE(report_of({record}).summary.changes.at(0).change.size(), 310U);
}

TEST(Markup, ShortenedEndsBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "ab…");
  EXPECT_EQ(shortened("µµµµ", 3), "µµ…");
}

TEST(Axis, HasRoundMarksAroundTheValues) {
  const Axis linear = Axis::linear({-3, 17}, {0, 100}, 5);
  EXPECT_EQ(linear.marks(), (std::vector<double>{-5, 0, 5, 10, 15, 20}));
  EXPECT_DOUBLE_EQ(linear.at(-5), 0);
  EXPECT_DOUBLE_EQ(linear.at(20), 100);
  const Axis decades = Axis::logarithmic({30, 40000}, {0, 100});
  EXPECT_EQ(decades.marks(), (std::vector<double>{100, 1000, 10000}));
  EXPECT_NEAR(decades.at(20), 0, 1e-9);
  EXPECT_NEAR(decades.at(1000), 50, 1e-9);
  EXPECT_NEAR(decades.at(50000), 100, 1e-9);
  const Axis one = Axis::logarithmic({700, 1500}, {0, 1});
  EXPECT_EQ(one.marks(), (std::vector<double>{500, 1000, 2000}));
  EXPECT_EQ(Axis::linear({0, 0}, {0, 1}, 3).values().to, 1) << "one value has a scale, too";
}

TEST(Axis, FiguresAreShort) {
  EXPECT_EQ(figure_text(0), "0");
  EXPECT_EQ(figure_text(0.05), "0.05");
  EXPECT_EQ(figure_text(999.9), "1k");
  EXPECT_EQ(figure_text(12345), "12.3k");
  EXPECT_EQ(figure_text(-2.5e6), "-2.5M");
}

TEST(Report, OfAnEmptyJournalIsRefusedWithAReason) {
  Progress progress(1, true);
  const auto report = make_report({}, std::nullopt, {}, progress);
  ASSERT_FALSE(report);
  EXPECT_TRUE(has(report.error().fix, "cudadent gate"));
}

TEST(Report, SaysThatRecordsAreMissing) {
  Progress progress(1, true);
  const auto report = make_report({compare_record("b1", "KEEP", 0.2)}, std::nullopt, {.missing = 2}, progress);
  ASSERT_TRUE(report);
  EXPECT_TRUE(has(html_of(*report), "missing from the journal, of this run or another: 2"));
  EXPECT_TRUE(has(markdown_of(report->summary), "missing from the journal: 2"));
}

TEST(Report, TakesTheLastRunUnlessToldOtherwise) {
  Record earlier = compare_record("a1", "KEEP", 0.1);
  earlier.run = "monday";
  EXPECT_EQ(report_of({earlier, compare_record("b1", "KEEP", 0.2)}).summary.run, "tuesday");
}

TEST(Report, OfThousandsShowsAllThatWereKeptAndTheLastOthers) {
  std::vector<Record> records{compare_record("first_kept", "KEEP", 0.10)};
  for (int i = 0; i < 5000; ++i) records.push_back(compare_record(fmt::format("left_{}_", i), "REVERT", 0.01));
  const std::string page = html_of(report_of(records));
  EXPECT_LE(page.size(), 2U << 20);
  EXPECT_TRUE(has(page, "first_kept"));
  EXPECT_TRUE(has(page, "left_4999_"));
  EXPECT_FALSE(has(page, "left_4500_"));
  EXPECT_TRUE(has(page, "4600 earlier ones that were not kept are left out"));
}

TEST(Report, KindsOfEvidenceHaveChartsOfTheirOwn) {
  Record measured = compare_record("b1", "KEEP", 0.10);
  measured.evidence = Evidence{.kind = measured_evidence, .where = "cpu: Xeon"};
  Record rehearsed = compare_record("b2", "REHEARSAL", 0.20);
  rehearsed.evidence = Evidence{.kind = rehearsal_evidence, .where = "rehearsal:cuda:0"};
  const std::vector<StepChart> charts = speed_charts(report_of({measured, rehearsed}));
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].evidence, measured_evidence);
  ASSERT_EQ(charts[0].points.size(), 1U);
  EXPECT_DOUBLE_EQ(*charts[0].points[0].value, 10);
  EXPECT_DOUBLE_EQ(*charts[0].points[0].lower, 9);
  EXPECT_FALSE(charts[0].points[0].upper) << "a bound that nobody knows is not drawn";
  EXPECT_EQ(charts[1].evidence, rehearsal_evidence);
  EXPECT_EQ(charts[1].stands_on, "rehearsal (rehearsal:cuda:0)");
}

TEST(Report, ALadderMultipliesWhatWasKept) {
  const std::vector<BarChart> charts = ladder_charts(report_of(
      {compare_record("b1", "KEEP", 0.10), compare_record("b2", "REVERT", 0.50), compare_record("b3", "KEEP", 0.20)}));
  ASSERT_EQ(charts.size(), 1U);
  ASSERT_EQ(charts[0].bars.size(), 3U) << "the start, and two that were kept";
  EXPECT_NEAR(charts[0].bars[2].value, 1.1 * 1.2, 1e-12);
}

TEST(Report, HostileWordsAreShownAndNothingElse) {
  const std::string hostile = "</title><script>alert(1)</script>\"'><img src=x onerror=y>";
  Record record = compare_record("b1", "KEEP", 0.10);
  record.project = record.device = record.run = hostile;
  record.evidence = Evidence{.kind = "measured", .where = hostile};
  auto& comparison = std::get<CompareRecord>(record.body);
  comparison.note = comparison.workload = comparison.problem = hostile;
  const RunReport report = report_of({record});
  for (const std::string& text : {html_of(report), picture_of(report)}) {
    EXPECT_FALSE(has(text, "<script")) << text;
    EXPECT_FALSE(has(text, "<img")) << text;
    EXPECT_FALSE(has(text, "\"'>")) << text;
    EXPECT_TRUE(has(text, "&lt;script&gt;")) << text;
  }
}

TEST(Report, ARehearsalIsNoHeadline) {
  Record rehearsed = compare_record("b2", "KEEP", 0.20);
  rehearsed.evidence = Evidence{.kind = rehearsal_evidence, .where = "rehearsal:cuda:0"};
  const std::string picture = picture_of(report_of({rehearsed}));
  EXPECT_TRUE(has(picture, "1 of 1")) << picture;
  EXPECT_FALSE(has(picture, "+20")) << picture;
}

// 2 x 16 x 8 x 16 of a warp's mma; 2 of a thread's fma, 4 of one over two halves; 1 of an addition; integers are none.
TEST(Roofline, CountsAdditionsAndMultiplications) {
  const LaunchReport launch = read_launch(
      R"({"kernel": "k", "ptx_lines": [
        {"text": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}", "inst_executed": 3,
         "thread_inst_executed": 96},
        {"text": "@%p1 fma.rn.f32 %f1, %f2, %f3, %f4", "inst_executed": 1, "thread_inst_executed": 32},
        {"text": "fma.rn.f16x2 %r1, %r2, %r3, %r4", "inst_executed": 1, "thread_inst_executed": 32},
        {"text": "add.f32 %f1, %f2, %f3", "inst_executed": 1, "thread_inst_executed": 10},
        {"text": "add.s32 %r1, %r2, %r3", "inst_executed": 1, "thread_inst_executed": 32},
        {"text": "ret", "inst_executed": 1, "thread_inst_executed": 32}]})");
  EXPECT_DOUBLE_EQ(flops_of(launch), 3 * 4096 + 64 + 128 + 10);
}

TEST(Roofline, RoofsAreThoseOfTheDevice) {
  const std::vector<Roof> roofs = roofs_of("l4");
  ASSERT_EQ(roofs.size(), 3U);
  EXPECT_NEAR(roofs[0].gb_per_s, 300, 1);
  EXPECT_EQ(roofs[1].name, "fp16 tensor 121 TFLOP/s");
  EXPECT_NEAR(roofs[2].tflops, 58 * 128 * 2 * 2040e6 / 1e12, 0.01) << "fp32";
  EXPECT_TRUE(roofs_of("nothing").empty());
}

LaunchPrediction predicted_at(const std::string& file) {
  LaunchPrediction launch;
  launch.lines = {{.file = file, .line = 4, .executions = 7, .share = 0.9}};
  launch.report.source_lines = {{.file = file, .line = 4, .shared_bank_conflicts = 5}};
  return launch;
}

// A worktree that is gone had the file elsewhere; of what leads out of the repository nothing is read.
TEST(AnnotatedSource, IsFoundInTheRepositoryAndNowhereElse) {
  const TemporaryDirectory directory;
  const std::filesystem::path root = std::filesystem::path(directory.path()) / "repository";
  std::filesystem::create_directories(root / "kernels");
  std::ofstream(root / "kernels" / "k.cu") << "1\n2\n3\nhot\n5\n6\n7\n";
  std::ofstream(std::filesystem::path(directory.path()) / "secret") << "1\n2\n3\nsecret\n";
  std::filesystem::create_symlink("../secret", root / "link.cu");
  const auto files = annotated_sources(predicted_at("/gone/worktree/kernels/k.cu"), root.string());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, "kernels/k.cu");
  ASSERT_EQ(files[0].lines.size(), 3U) << "a neighbour on either side";
  EXPECT_EQ(files[0].lines[1].text, "hot");
  EXPECT_DOUBLE_EQ(files[0].lines[1].bank_conflicts, 5);
  for (const char* outside : {"/gone/link.cu", "/etc/hostname", "../secret"}) {
    const auto none = annotated_sources(predicted_at(outside), root.string());
    ASSERT_EQ(none.size(), 1U) << outside;
    ASSERT_EQ(none[0].lines.size(), 1U) << outside;
    EXPECT_EQ(none[0].lines[0].text, "") << outside;
    EXPECT_FALSE(has(none[0].name, "/")) << outside;
  }
}

}  // namespace
}  // namespace flashmoe::workflow
