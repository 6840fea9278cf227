#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "support/json.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/line_file.hpp"

namespace flashmoe::workflow {
namespace {

// A record that says something of its own.
Record note(const std::string& summary) {
  Record record;
  record.body = GateRecord{.summary = summary};
  return record;
}

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "journal_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string file() const { return (directory_ / ".cudadent" / "records.jsonl").string(); }
  void append_raw(const std::string& bytes) const {
    std::filesystem::create_directories(directory_ / ".cudadent");
    std::ofstream(file(), std::ios::app | std::ios::binary) << bytes;
  }
  [[nodiscard]] std::vector<Record> read(JournalState* state = nullptr) const {
    auto records = Journal(directory_.string()).read(state);
    EXPECT_TRUE(records);
    return records ? *records : std::vector<Record>{};
  }

  std::filesystem::path directory_;
};

TEST_F(JournalTest, NoFileHasNoRecords) {
  EXPECT_TRUE(read().empty());
  EXPECT_FALSE(Journal(directory_.string()).find("abc"));
}

TEST_F(JournalTest, CompletesTheCommonFields) {
  Journal journal(directory_.string());
  Record draft;
  draft.verdict = "KEEP";
  draft.seconds = 1800;
  draft.body = CompareRecord{.cost_per_hour = Prices{.machine = 0.8, .agent = 10}, .pairs_used = 7};
  const auto record = journal.append(draft);
  ASSERT_TRUE(record);
  const Json written = Json::parse(record->line);
  for (const char* key : {"version", "id", "kind", "time", "run", "project", "commit", "dirty", "device", "environment",
                          "hashes", "verdict", "seconds", "cost", "pairs_used"}) {
    EXPECT_TRUE(written.contains(key)) << key;
  }
  EXPECT_EQ(record->kind, "compare");
  EXPECT_EQ(record->id.size(), 12U);
  EXPECT_NEAR(record->cost.total, 5.4, 1e-9);
  EXPECT_TRUE(written["commit"].is_null()) << "the directory is in no repository";
  EXPECT_TRUE(written["environment"]["cpu"].is_string());
  ASSERT_EQ(read().size(), 1U);
  EXPECT_EQ(read()[0].line, record->line);
  const auto found = journal.find(record->id.substr(0, 6));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->line, record->line);
}

TEST_F(JournalTest, EveryRecordHasAnIdOfItsOwn) {
  Journal journal(directory_.string());
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.insert(journal.append(note("x"))->id);
  EXPECT_EQ(ids.size(), 20U);
}

TEST_F(JournalTest, ATornLastLineIsSkippedAndClosedByTheNextWriter) {
  Journal journal(directory_.string());
  ASSERT_TRUE(journal.append(note("1")));
  append_raw(R"({"version":1,"id":"0123456789ab","kind":"gate","n":)");
  JournalState state;
  EXPECT_EQ(read(&state).size(), 1U);
  EXPECT_EQ(state.damaged, 1);
  ASSERT_TRUE(journal.append(note("2")));
  const auto records = read(&state);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].as<GateRecord>()->summary, "2");
  EXPECT_EQ(state.damaged, 1);
}

TEST_F(JournalTest, ARecordWithEveryKindOfTextStaysOneLine) {
  Journal journal(directory_.string());
  const std::string nasty = std::string("line\nbreak \0 zero", 17) + " \xff\xfe not UTF-8 \u2713";
  Record draft = note(nasty);
  draft.seconds = std::nan("");
  ASSERT_TRUE(journal.append(draft));
  ASSERT_TRUE(journal.append(note("")));
  JournalState state;
  EXPECT_EQ(read(&state).size(), 2U);
  EXPECT_EQ(state.damaged, 0);
}

TEST_F(JournalTest, GarbageNeverStopsReadingNorHidesWhatFollows) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> byte(0, 255);
  std::uniform_int_distribution<int> length(0, 300);
  Journal journal(directory_.string());
  constexpr int rounds = 40;
  for (int round = 0; round < rounds; ++round) {
    std::string garbage;
    for (int i = length(random); i > 0; --i) garbage.push_back(static_cast<char>(byte(random)));
    if (round % 4 == 1) garbage = "{\"version\":1,\"id\":5,\"kind\":\"gate\"}\n[1,2]\nnull\n\"text\"\n";
    if (round % 4 == 2) garbage = std::string(5000, '[') + "\n";
    append_raw(garbage);
    ASSERT_TRUE(journal.append(note(std::to_string(round))));
  }
  const auto records = read();
  ASSERT_EQ(records.size(), static_cast<std::size_t>(rounds));
  for (int round = 0; round < rounds; ++round) {
    EXPECT_EQ(records[static_cast<std::size_t>(round)].as<GateRecord>()->summary, std::to_string(round));
  }
}

TEST_F(JournalTest, EightProcessesWriteAtOnce) {
  constexpr int writers = 8;
  constexpr int each = 25;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      // Lines of very different length, so that a mixed-up write would show.
      for (int i = 0; i < each; ++i) {
        const std::string line =
            Json{{"version", 1},     {"id", "x"}, {"kind", "t"},
                 {"writer", writer}, {"i", i},    {"fill", std::string(static_cast<std::size_t>(i) * 3000, 'f')}}
                .dump();
        if (!append_line(file(), line)) ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  JournalState state;
  const auto records = read(&state);
  EXPECT_EQ(state.damaged, 0);
  ASSERT_EQ(records.size(), static_cast<std::size_t>(writers * each));
  std::vector<int> next(writers, 0);
  for (const Record& record : records) {
    const Json json = Json::parse(record.line);
    EXPECT_EQ(json["i"], next[json["writer"].get<std::size_t>()]++);
  }
}

TEST_F(JournalTest, KilledWritersLoseNothingThatWasReported) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> wait_us(0, 8000);
  std::set<int> reported;
  int next = 0;
  for (int round = 0; round < 30; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = next;; ++i) {
        const std::string line =
            Json{{"version", 1}, {"id", "x"}, {"kind", "t"}, {"i", i}, {"fill", std::string(20000, 'f')}}.dump();
        if (!append_line(file(), line)) ::_exit(1);
        if (::write(ends[1], &i, sizeof i) != sizeof i) ::_exit(1);
      }
    }
    ::close(ends[1]);
    // Every third writer is seen writing before it is killed, so that a slow machine cannot empty the test.
    if (int i = 0; round % 3 == 0 && ::read(ends[0], &i, sizeof i) == sizeof i) reported.insert(i);
    std::this_thread::sleep_for(std::chrono::microseconds(wait_us(random)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (int i = 0; ::read(ends[0], &i, sizeof i) == sizeof i;) reported.insert(i);
    ::close(ends[0]);
    next += 1000;
  }
  std::set<int> found;
  for (const Record& record : read()) found.insert(Json::parse(record.line)["i"].get<int>());
  for (const int i : reported) EXPECT_TRUE(found.contains(i)) << i;
  EXPECT_FALSE(reported.empty()) << "no writer got as far as one record: the test saw nothing";
}

TEST_F(JournalTest, AnUnwritablePlaceIsADiagnosticThatNamesIt) {
  std::ofstream(directory_ / ".cudadent") << "a file where the directory should be";
  const auto record = Journal(directory_.string()).append(note("x"));
  ASSERT_FALSE(record);
  EXPECT_NE(record.error().message.find(".cudadent"), std::string::npos);
  EXPECT_FALSE(record.error().fix.empty());
}

TEST_F(JournalTest, ACommitAndAChangedTreeAreSeen) {
  const std::string git = "git -C " + directory_.string() + " -c user.name=t -c user.email=t@example.org ";
  std::ofstream(directory_ / "a.txt") << "1";
  ASSERT_EQ(std::system((git + "init -q && " + git + "add a.txt && " + git + "commit -qm first").c_str()), 0);
  const TreeState clean = tree_state(directory_.string());
  EXPECT_EQ(clean.commit.size(), 40U);
  EXPECT_FALSE(clean.dirty);
  ASSERT_TRUE(Journal(directory_.string()).append(note("x")));
  EXPECT_FALSE(tree_state(directory_.string()).dirty) << "our own records are no change of the tree";
  std::ofstream(directory_ / "a.txt") << "2";
  EXPECT_TRUE(tree_state(directory_.string()).dirty);
}

TEST_F(JournalTest, NothingOfARehearsalIsMeasured) {
  Record record = note("x");
  record.device = "rehearsal:cuda:0";
  record.evidence = Evidence{.kind = measured_evidence, .where = "cuda:0: a card that nobody has"};
  ASSERT_TRUE(Journal(directory_.string()).append(std::move(record)));
  const std::vector<Record> records = read();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().evidence->kind, rehearsal_evidence) << "whatever its writer thinks";
  EXPECT_NE(records.front().evidence->where.find("never run on a card"), std::string::npos);
}

TEST(Cost, IsTimeTimesPrice) {
  const Spent cost = cost_of(3600 * 2, {.machine = 0.5, .agent = 10});
  EXPECT_DOUBLE_EQ(cost.machine, 1);
  EXPECT_DOUBLE_EQ(cost.agent, 20);
  EXPECT_DOUBLE_EQ(cost.total, 21);
}

}  // namespace
}  // namespace flashmoe::workflow
