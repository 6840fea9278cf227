// What somebody did to a journal behind our back is seen by the next reader.
#include "workflow/journal/chain.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/line_file.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/journal/writer.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

class ChainTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "chain_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directory(root_ / "project");
    ::setenv("XDG_STATE_HOME", (root_ / "state").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] Journal journal() const { return Journal((root_ / "project").string()); }
  [[nodiscard]] std::string file() const { return (root_ / "project" / ".cudadent" / "records.jsonl").string(); }
  Record append(const std::string& summary, const std::string& verdict = "holds") const {
    Record record;
    record.verdict = verdict;
    record.body = GateRecord{.summary = summary};
    auto written = journal().append(record);
    EXPECT_TRUE(written);
    return *written;
  }
  [[nodiscard]] std::vector<std::string> lines() const { return read_lines(file())->whole; }
  void rewrite(const std::vector<std::string>& lines) const {
    std::ofstream stream(file(), std::ios::trunc);
    for (const std::string& line : lines) stream << line << "\n";
  }
  std::vector<Record> read() {
    state_ = {};
    auto records = journal().read(&state_);
    EXPECT_TRUE(records);
    return *records;
  }
  [[nodiscard]] std::string problems() const {
    std::string text;
    for (const std::string& problem : state_.problems) text += problem + "\n";
    return text;
  }
  [[nodiscard]] bool names(const std::string& part) const { return problems().find(part) != std::string::npos; }

  fs::path root_{};
  JournalState state_{};
};

// With an id that is right: whoever forges a record can compute a hash.
std::string with_id(const Json& content) {
  const std::string id = sha256_hex(one_line(content)).substr(0, id_digits);
  Json line = {{"version", 1}, {"id", id}};
  for (const auto& [key, value] : content.items()) line[key] = value;
  return one_line(line);
}

TEST_F(ChainTest, WhatWasWrittenHolds) {
  for (int i = 0; i < 4; ++i) append("x");
  const auto records = read();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(problems(), "");
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].standing, Standing::chained);
    ASSERT_TRUE(records[i].chain);
    EXPECT_EQ(records[i].chain->sequence, i + 1);
    EXPECT_EQ(records[i].chain->previous, i == 0 ? "" : content_sha256(records[i - 1].line));
    EXPECT_EQ(records[i].evidence->kind, "measured");
    EXPECT_FALSE(records[i].evidence->where.empty());
  }
}

TEST_F(ChainTest, AChangedRecordIsNamed) {
  append("a");
  const Record slow = append("b", "fails");
  append("c");
  auto text = lines();
  const auto at = text[1].find(R"("verdict":"fails")");
  ASSERT_NE(at, std::string::npos);
  text[1].replace(at, 17, R"("verdict":"holds")");
  rewrite(text);
  const auto records = read();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[1].standing, Standing::changed);
  EXPECT_TRUE(names("record " + slow.id + " (holds) is changed")) << problems();
  EXPECT_EQ(state_.problems.size(), 1U) << "it is not missing too\n" << problems();
  EXPECT_FALSE(is_usable(records[1]));
  EXPECT_TRUE(is_usable(records[2]));
}

TEST_F(ChainTest, AMissingRecordIsNamedInTheMiddleAndAtTheEnd) {
  for (int i = 0; i < 5; ++i) append("x");
  const auto all = lines();
  rewrite({all[0], all[2], all[3]});
  EXPECT_EQ(read().size(), 3U);
  EXPECT_TRUE(names("record number 2 of this writer is missing")) << problems();
  EXPECT_TRUE(names("record number 5 of this writer is missing")) << problems();
  EXPECT_EQ(state_.missing, 2U);
}

// Looks at the data are counted from the records: without them every comparison would be the first of its run.
TEST_F(ChainTest, AJournalThatBeginsAnewIsSeen) {
  for (int i = 0; i < 3; ++i) append("x");
  fs::remove_all(root_ / "project" / ".cudadent");
  EXPECT_TRUE(read().empty());
  EXPECT_TRUE(names("records number 1 to 3 of this writer are missing")) << problems();
  const Record next = append("x");
  EXPECT_EQ(next.chain->sequence, 4U);
  static_cast<void>(read());
  EXPECT_EQ(state_.missing, 3U) << problems();
}

TEST_F(ChainTest, ARecordWithoutAChainBehindOthersIsForeign) {
  append("a");
  std::ofstream(file(), std::ios::app) << with_id({{"version", 1},
                                                   {"kind", "compare"},
                                                   {"verdict", "KEEP"},
                                                   {"pairs_used", 24},
                                                   {"commit", std::string(40, 'a')},
                                                   {"dirty", false}})
                                       << "\n";
  const auto records = read();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].standing, Standing::foreign);
  EXPECT_FALSE(is_usable(records[1]));
  EXPECT_TRUE(names("(KEEP) is foreign")) << problems();
  EXPECT_FALSE(known_good_of(records[1]));
  EXPECT_NE(list_line(records[1]).find("[foreign]"), std::string::npos);
}

// It knows the format and continues the chain; the writer remembers that it wrote no such record.
TEST_F(ChainTest, ARecordInThisWritersNameIsForeign) {
  append("a");
  const std::string previous = content_sha256(lines()[0]);
  const Json chain = {{"writer", writer_of(journal().path())}, {"sequence", 2}, {"previous", previous}};
  const std::string forged = with_id({{"version", 1}, {"chain", chain}, {"kind", "gate"}, {"verdict", "holds"}});
  rewrite({lines()[0], forged});
  const auto records = read();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].standing, Standing::foreign);
  EXPECT_FALSE(is_usable(records[1]));
  EXPECT_TRUE(names("this writer never wrote it")) << problems();
  // The next record takes the place; the forged one stays what it is.
  EXPECT_EQ(append("b").chain->sequence, 2U);
  const auto after = read();
  EXPECT_EQ(after[1].standing, Standing::foreign);
  EXPECT_EQ(after[2].standing, Standing::chained);
}

TEST_F(ChainTest, OldRecordsAreReadAndMarkedUnchained) {
  fs::create_directories(root_ / "project" / ".cudadent");
  rewrite({with_id({{"version", 1}, {"kind", "gate"}, {"verdict", "holds"}, {"summary", "old"}})});
  append("new");
  const auto records = read();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].standing, Standing::unchained);
  EXPECT_TRUE(is_usable(records[0]));
  EXPECT_EQ(records[1].standing, Standing::chained);
  EXPECT_EQ(problems(), "");
}

TEST_F(ChainTest, MergedJournalsKeepTheirChains) {
  const auto chained = [](std::uint64_t sequence, const std::string& previous) {
    const Json chain = {{"writer", "another"}, {"sequence", sequence}, {"previous", previous}};
    return with_id({{"version", 1}, {"chain", chain}, {"kind", "gate"}, {"verdict", "holds"}});
  };
  append("a");
  append("b");
  const std::string first = chained(1, "");
  const std::string second = chained(2, content_sha256(first));
  const std::string third = chained(3, content_sha256(second));
  const auto ours = lines();
  rewrite({first, ours[0], second, third, ours[1]});
  const auto records = read();
  EXPECT_EQ(problems(), "");
  ASSERT_EQ(state_.notes.size(), 1U);
  EXPECT_EQ(state_.notes[0], "3 records are foreign: by writer another");
  EXPECT_EQ(records[0].standing, Standing::foreign);
  EXPECT_TRUE(is_usable(records[0]));
  EXPECT_EQ(records[4].standing, Standing::chained);
  rewrite({first, ours[0], third, ours[1]});
  static_cast<void>(read());
  EXPECT_TRUE(names("record number 2 of writer another is missing")) << problems();
}

TEST_F(ChainTest, AWriterThatWasKilledBeforeItsLineLeavesNoGap) {
  append("a");
  auto memory = remembered(journal().path());
  ASSERT_TRUE(memory);
  memory->announced = {.sequence = 2, .sha256 = std::string(64, '0')};
  remember(journal().path(), *memory);
  static_cast<void>(read());
  EXPECT_EQ(problems(), "");
  EXPECT_EQ(append("b").chain->sequence, 2U);
  static_cast<void>(read());
  EXPECT_EQ(problems(), "");
}

TEST_F(ChainTest, NoSymbolicLinkIsFollowed) {
  const fs::path outside = root_ / "outside";
  fs::create_directory(outside);
  fs::create_directory_symlink(outside, root_ / "project" / ".cudadent");
  Record record;
  const auto refused = journal().append(record);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("symbolic link"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(outside));
  EXPECT_FALSE(journal().read());

  fs::remove(root_ / "project" / ".cudadent");
  fs::create_directory(root_ / "project" / ".cudadent");
  std::ofstream(outside / "file") << "";
  fs::create_symlink(outside / "file", file());
  EXPECT_FALSE(journal().append(record));
  EXPECT_TRUE(fs::is_empty(outside / "file"));
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  EXPECT_FALSE(journal().append(record)) << "and a pipe is not waited for";
}

TEST_F(ChainTest, NestingIsBounded) {
  append("a");
  constexpr std::size_t deep = 2000000;
  std::ofstream(file(), std::ios::app) << R"({"version":1,"id":"0123456789ab","kind":"gate","x":)"
                                       << std::string(deep, '[') << std::string(deep, ']') << "}\n";
  EXPECT_EQ(read().size(), 1U);
  EXPECT_EQ(state_.damaged, 1);
}

TEST_F(ChainTest, EscapeSequencesDoNotReachTheTerminal) {
  Record record = append("\x1b[2J\x1b[1;1Hholds\r\n\u009b2J", "fails\x1b[8m");
  const std::string line = list_line(record);
  for (const char c : line) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << line;
  EXPECT_EQ(line.find("\u009b"), std::string::npos);
}

}  // namespace
}  // namespace flashmoe::workflow
