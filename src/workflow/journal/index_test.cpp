// The index says what the lines say, or is not asked.
#include "workflow/journal/index.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/clock.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/journal/writer.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

class IndexTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "index_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / ".cudadent");
    ::setenv("XDG_STATE_HOME", (root_ / "state").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] Journal journal() const { return Journal(root_.string()); }
  // As another writer would have left it.
  void write_long(int count) const {
    std::ofstream file(journal().path());
    std::string previous;
    const std::string padding(2500, 'x');  // a record is a few kilobytes
    for (int i = 1; i <= count; ++i) {
      const std::string rest = fmt::format(
          R"("chain":{{"writer":"another","sequence":{},"previous":"{}"}},"kind":"gate","time":"2026-11-17T00:00:00Z",)"
          R"("run":"r","project":"p","verdict":"holds","summary":"{}","padding":"{}"}})",
          i, previous, i, padding);
      previous = sha256_hex(R"({"version":1,)" + rest);
      file << R"({"version":1,"id":")" << previous.substr(0, id_digits) << R"(",)" << rest << "\n";
    }
  }
  Record append() const {
    Record record;
    record.commit = "";
    record.dirty = false;
    record.body = GateRecord{.summary = "new"};
    auto written = journal().append(record);
    EXPECT_TRUE(written);
    return *written;
  }
  [[nodiscard]] bool is_sealed() const {
    return sealed_index(journal().path(), stamp_of(journal().path())).has_value();
  }
  void same_as_lines() const {
    JournalState quick, slow;
    const auto headings = journal().headings(&quick);
    const auto lines = journal().verified_headings(&slow);
    ASSERT_TRUE(headings && lines);
    EXPECT_EQ(*headings, *lines);
    EXPECT_EQ(quick.problems, slow.problems);
    EXPECT_EQ(quick.damaged, slow.damaged);
  }

  fs::path root_{};
};

TEST_F(IndexTest, ALongJournalGetsOneAndAppendsKeepItGood) {
  write_long(600);
  EXPECT_FALSE(is_sealed());
  EXPECT_EQ(journal().headings()->size(), 600U);
  EXPECT_TRUE(is_sealed());
  for (int i = 0; i < 5; ++i) append();
  EXPECT_TRUE(is_sealed());
  EXPECT_EQ(journal().headings()->size(), 605U);
  same_as_lines();
  const auto last = journal().headings()->back();
  EXPECT_EQ(last.standing, Standing::chained);
  EXPECT_EQ(journal().load(last)->as<GateRecord>()->summary, "new");
  EXPECT_EQ(journal().find(last.id)->id, last.id);
}

TEST_F(IndexTest, TheLastRecordsAreThoseOfAWholeRead) {
  write_long(40);
  const auto all = journal().read();
  const auto last = journal().read_last(3), more = journal().read_last(1000);
  ASSERT_TRUE(all && last && more);
  ASSERT_EQ(last->size(), 3U);
  EXPECT_EQ(more->size(), all->size());
  for (std::size_t i = 0; i < 3; ++i) {
    const Record& whole = (*all)[all->size() - 3 + i];
    EXPECT_EQ((*last)[i].id, whole.id);
    EXPECT_EQ((*last)[i].standing, whole.standing);
  }
}

TEST_F(IndexTest, AFileThatSomebodyElseTouchedIsReadAgain) {
  write_long(600);
  static_cast<void>(journal().headings());
  std::ofstream(journal().path(), std::ios::app) << "no record\n";
  EXPECT_FALSE(is_sealed());
  append();  // it must not vouch for what it did not write
  EXPECT_FALSE(is_sealed());
  JournalState state;
  EXPECT_EQ(journal().headings(&state)->size(), 601U);
  EXPECT_EQ(state.damaged, 1);
  same_as_lines();
}

TEST_F(IndexTest, AnEditedLineIsNotHandedOut) {
  write_long(600);
  const auto headings = journal().headings();
  const Heading& victim = (*headings)[300];
  std::fstream file(journal().path());
  file.seekp(static_cast<std::streamoff>(victim.offset + victim.length - 10));
  file << "y" << std::flush;
  const auto loaded = journal().load(victim);
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("not what it was"), std::string::npos);
  JournalState state;
  static_cast<void>(journal().headings(&state));
  ASSERT_FALSE(state.problems.empty());
  same_as_lines();
}

// Of any length: whatever is in its place is no index.
TEST_F(IndexTest, OnlyTheIndexThatWasSealedIsBelieved) {
  write_long(600);
  static_cast<void>(journal().headings());
  const std::string path = state_file(journal().path(), ".index");
  const std::string whole = *whole_file(path);
  const auto with = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_FALSE(is_sealed());
    same_as_lines();
  };
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{100}, whole.size() - 1})
    with(whole.substr(0, length));
  std::string forged = whole;
  forged.replace(forged.find("holds"), 5, "fails");
  with(forged);
  // Sealed by its hash, but for another journal, or no index at all inside.
  const std::string seal = state_file(journal().path(), ".seal");
  const std::string good = *whole_file(seal);
  std::string foreign = good;
  foreign.replace(foreign.find("records.jsonl"), 13, "others_.jsonl");
  std::ofstream(seal) << foreign;
  EXPECT_FALSE(is_sealed());
  static_cast<void>(journal().verified_headings());
  Json sealed = parse_json(*whole_file(seal));
  const std::string huge = "cudadent index 1\n" + std::string(24, '\xff');
  std::ofstream(path, std::ios::binary) << huge;
  sealed["index"] = sha256_hex(huge);
  std::ofstream(seal) << one_line(sealed);
  EXPECT_FALSE(is_sealed());
  same_as_lines();
}

TEST_F(IndexTest, AnAppendTakesNoLongerWhereThereAreManyRecords) {
  constexpr double most_seconds = 0.010;
  write_long(100'000);
  const auto cold = std::chrono::steady_clock::now();
  ASSERT_EQ(journal().headings()->size(), 100'000U);
  const double first = seconds_since(cold);
  append();  // the first asks the machine what it is
  double best = 1, sum = 0;
  constexpr int appends = 20;
  for (int i = 0; i < appends; ++i) {
    const auto began = std::chrono::steady_clock::now();
    append();
    const double took = seconds_since(began);
    best = std::min(best, took);
    sum += took;
  }
  const auto warm = std::chrono::steady_clock::now();
  EXPECT_EQ(journal().headings()->size(), 100'001U + appends);
  fmt::print("100,000 records: append {:.2f} ms (mean {:.2f} ms), headings {:.2f} s, without an index {:.2f} s\n",
             1e3 * best, 1e3 * sum / appends, seconds_since(warm), first);
  EXPECT_LE(best, most_seconds);
}

}  // namespace
}  // namespace flashmoe::workflow
