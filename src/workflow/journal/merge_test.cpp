// Merging is a union of sets of records: once or twice, in any order and grouping, the same file comes out. What is no
// record of this project, or not as it was written, does not get in.
#include "workflow/journal/merge.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
#include "workflow/journal/chain.hpp"
#include "workflow/journal/line_file.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

class MergeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "merge_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    ::setenv("XDG_STATE_HOME", (root_ / "state").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] std::string at(const std::string& name) const { return (root_ / name).string(); }
  [[nodiscard]] std::string file(const std::string& name) const { return at(name) + "/.cudadent/records.jsonl"; }
  [[nodiscard]] std::string text(const std::string& name) const { return whole_file(file(name)).value_or(""); }
  Record append(const std::string& name, const std::string& project = "kernel") const {
    fs::create_directories(at(name));
    Record record;
    record.project = project;
    record.commit = "";
    record.dirty = false;
    record.body = GateRecord{.summary = name};
    auto written = Journal(at(name)).append(record);
    EXPECT_TRUE(written);
    return *written;
  }
  MergeReport merge(const std::string& into, const std::vector<std::string>& names) const {
    fs::create_directories(at(into));
    std::vector<std::string> sources;
    for (const std::string& name : names) sources.push_back(at(name));
    auto report = merge_journals(at(into), "kernel", sources);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : MergeReport{};
  }
  void write(const std::string& name, const std::vector<std::string>& lines) const {
    fs::create_directories(at(name) + "/.cudadent");
    std::ofstream stream(file(name));
    for (const std::string& line : lines) stream << line << "\n";
  }

  fs::path root_{};
};

TEST_F(MergeTest, ShardsOfOneMachineAreOneJournal) {
  for (int i = 0; i < 3; ++i) {
    append("a");
    append("b");
  }
  const MergeReport report = merge("a", {"b"});
  EXPECT_TRUE(report.holds());
  EXPECT_EQ(report.records, 6U);
  EXPECT_EQ(report.added, 3U);
  JournalState state;
  const auto records = Journal(at("a")).read(&state);
  ASSERT_EQ(records->size(), 6U);
  EXPECT_TRUE(state.problems.empty());
  for (std::size_t i = 1; i < records->size(); ++i) EXPECT_LE((*records)[i - 1].time, (*records)[i].time);
  for (const Record& record : *records) EXPECT_TRUE(is_usable(record));
  // The chain goes on, and the other side can take it back.
  append("a");
  EXPECT_EQ(merge("b", {"a"}).records, 7U);
  EXPECT_TRUE(merge("a", {"b"}).holds());
  EXPECT_EQ(text("a"), text("b"));
}

TEST_F(MergeTest, OrderGroupingAndRepetitionDoNotMatter) {
  std::mt19937 draw(17);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same every time
  for (int round = 0; round < 12; ++round) {
    const auto name = [&](const std::string& which) { return std::to_string(round) + which; };
    const std::vector<std::string> parts = {name("x"), name("y"), name("z")};
    for (const std::string& part : parts) append(part);
    for (int i = 0; i < 12; ++i) {
      append(parts[draw() % 3]);
      // Journals that share records already: whoever was merged before.
      if (draw() % 4 == 0) merge(parts[draw() % 3], {parts[draw() % 3]});
    }
    const MergeReport all = merge(name("xyz"), parts);
    EXPECT_TRUE(all.holds());
    merge(name("zyx"), {parts[2], parts[1], parts[0], parts[1]});
    merge(name("yz"), {parts[1], parts[2]});
    merge(name("x(yz)"), {parts[0], name("yz")});
    EXPECT_EQ(text(name("xyz")), text(name("zyx")));
    EXPECT_EQ(text(name("xyz")), text(name("x(yz)")));
    EXPECT_EQ(merge(name("xyz"), parts).added, 0U);
    EXPECT_EQ(text(name("xyz")), text(name("zyx")));
  }
}

TEST_F(MergeTest, WhatIsNotAsItWasWrittenIsLeftOutAndNamed) {
  append("a");
  const Record edited = append("b");
  append("b");
  auto lines = read_lines(file("b"))->whole;
  lines[0].replace(lines[0].find("\"verdict\":\"none\""), 16, "\"verdict\":\"KEEP\"");
  lines.push_back(lines[1].substr(0, lines[1].size() / 2));
  lines.emplace_back(R"({"version":1,"id":"0123456789ab","kind":"gate","verdict":"holds","project":"kernel"})");
  write("b", lines);
  const MergeReport report = merge("a", {"b"});
  EXPECT_FALSE(report.holds());
  EXPECT_EQ(report.records, 2U);
  ASSERT_EQ(report.left_out.size(), 3U);
  EXPECT_NE(report.left_out[0].find("1 lines do not read"), std::string::npos) << report.left_out[0];
  EXPECT_NE(report.left_out[1].find("record " + edited.id + " (KEEP) is changed"), std::string::npos);
  EXPECT_EQ(text("a").find("KEEP"), std::string::npos);
}

// A hash can be computed by anybody, and a record without a chain must not become one from before there were any.
TEST_F(MergeTest, ARecordWithoutAChainIsNotMadeOld) {
  append("a");
  append("b");
  auto lines = read_lines(file("b"))->whole;
  const Json content = {{"version", 1}, {"kind", "gate"}, {"project", "kernel"}, {"verdict", "KEEP"}};
  Json forged = {{"version", 1}, {"id", sha256_hex(one_line(content)).substr(0, id_digits)}};
  for (const auto& [key, value] : content.items()) forged[key] = value;
  lines.push_back(one_line(forged));
  write("b", lines);
  EXPECT_EQ(merge("a", {"b"}).left_out.size(), 1U);
  EXPECT_EQ(text("a").find("KEEP"), std::string::npos);
}

TEST_F(MergeTest, AnotherProjectALinkAndNothingAreRefused) {
  append("a");
  append("other", "another_kernel");
  append("b");
  fs::create_directories(at("linked") + "/.cudadent");
  fs::create_symlink(file("b"), file("linked"));
  const std::string before = text("a");
  for (const char* name : {"other", "linked", "nowhere"}) {
    const auto refused = merge_journals(at("a"), "kernel", {at("b"), at(name)});
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, codes::journal_not_merged) << name;
    EXPECT_EQ(text("a"), before) << name;
  }
}

TEST_F(MergeTest, AJournalThatDoesNotHoldIsNotMergedInto) {
  append("a");
  append("a");
  append("b");
  write("a", {read_lines(file("a"))->whole[1]});
  const auto refused = merge_journals(at("a"), "kernel", {at("b")});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("does not hold itself"), std::string::npos);
}

// Two copies that one writer continued, and two shards that decided differently.
TEST_F(MergeTest, ContradictionsAreNamed) {
  const auto decided = [&](const std::string& name, const std::string& decision) {
    fs::create_directories(at(name));
    Record record;
    record.project = "kernel";
    record.run = "r";
    record.body = IterationRecord{.parent = "p", .candidate = "c", .decision = decision};
    return Journal(at(name)).append(record)->id;
  };
  const std::string advanced = decided("a", "advance"), left = decided("b", "leave");
  const MergeReport contrary = merge("a", {"b"});
  ASSERT_EQ(contrary.conflicts.size(), 1U);
  EXPECT_NE(contrary.conflicts[0].find(advanced), std::string::npos);
  EXPECT_NE(contrary.conflicts[0].find(left), std::string::npos);

  append("c");
  const auto first = read_lines(file("c"))->whole;
  append("c");
  const auto one = read_lines(file("c"))->whole;
  std::string fork = one[1];
  Json content = parse_json(fork);
  content.erase("id");
  content["verdict"] = "fork";
  Json forged = {{"version", 1}, {"id", sha256_hex(one_line(content)).substr(0, id_digits)}};
  for (const auto& [key, value] : content.items()) forged[key] = value;
  write("d", {first[0], one_line(forged)});
  const MergeReport forked = merge("e", {"c", "d"});
  ASSERT_EQ(forked.conflicts.size(), 1U);
  EXPECT_NE(forked.conflicts[0].find("both claim place 2"), std::string::npos) << forked.conflicts[0];
  EXPECT_FALSE(forked.state.problems.empty());
}

}  // namespace
}  // namespace flashmoe::workflow
