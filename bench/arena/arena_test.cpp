#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "plain.hpp"
#include "record.hpp"
#include "recording.hpp"
#include "replay.hpp"
#include "rules.hpp"
#include "support/run_tests_for_test.hpp"
#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "table.hpp"
#include "workflow/runner/worker.hpp"

namespace flashmoe::arena {
namespace {

const std::string data = ARENA_DATA;

std::vector<Task> shipped_tasks() {
  auto tasks = read_tasks(data);
  EXPECT_TRUE(tasks) << tasks.error().to_string();
  return tasks ? *tasks : std::vector<Task>{};
}

Recording shipped_recording() {
  auto recording = read_recording(data + "/recording.jsonl", shipped_tasks());
  EXPECT_TRUE(recording) << recording.error().to_string();
  return recording ? *recording : Recording{};
}

Rule shipped_rule(const std::string& name) {
  const auto rules = read_rules(data + "/rules.toml");
  EXPECT_TRUE(rules);
  for (const Rule& rule : *rules) {
    if (rule.name == name) return rule;
  }
  ADD_FAILURE() << "no rule " << name;
  return {};
}

// A machine whose noise is 1 % a block, and tasks whose truth is what the test says.
class Made {
 public:
  explicit Made(int tasks = 1) {
    for (int i = 0; i < tasks; ++i) {
      task_list.push_back({.name = "t" + std::to_string(i), .family = "made", .base = "base"});
      recorded.push_back({.name = task_list.back().name, .library = "base"});
      for (int pair = 0; pair < 10; ++pair) recorded.back().equal_pairs.push_back(raw_pair(0));
    }
  }

  RecordedCandidate& add(std::size_t task, const std::string& name, Truth truth, double gain) {
    Candidate candidate{.name = name, .source = name, .truth = truth};
    const bool needs_witness = truth == Truth::breaks || truth == Truth::wrong;
    if (needs_witness) candidate.witness = workflow::Values{{"n", 1}};
    task_list[task].candidates.push_back(candidate);
    RecordedCandidate made{.name = name,
                           .truth = truth,
                           .library = truth == Truth::equal ? "base" : name,
                           .witnessed = needs_witness,
                           .one_shape = true,
                           .shapes = true};
    for (int run = 0; run < 20; ++run) made.plain.push_back({samples(0), samples(gain)});
    made.attempts.emplace_back();
    for (int pair = 0; pair < 24; ++pair) made.attempts[0].pairs.push_back(raw_pair(gain));
    recorded[task].candidates.push_back(std::move(made));
    return recorded[task].candidates.back();
  }

  // The file as `arena record` would have written it.
  std::string file() {
    std::string lines;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      recorded[i].data = data_hash(task_list[i], nullptr);
      for (std::size_t c = 0; c < recorded[i].candidates.size(); ++c) {
        recorded[i].candidates[c].data = data_hash(task_list[i], &task_list[i].candidates[c]);
      }
      lines += lines_of(recorded[i]);
    }
    return file_of("a machine that does not exist", lines);
  }

  Recording read() {
    auto recording = parse_recording(file(), task_list);
    EXPECT_TRUE(recording) << recording.error().to_string();
    return recording ? *recording : Recording{};
  }

  std::string refusal(const std::string& text) {
    const auto recording = parse_recording(text, task_list);
    return recording ? "" : recording.error().message;
  }

  std::vector<Task> task_list;
  std::vector<RecordedTask> recorded;

 private:
  double noisy(double gain) { return 2e-5 * std::exp(normal_(random_) - std::log1p(gain)); }
  RawPair raw_pair(double gain) {
    RawPair pair;
    for (int block = 0; block < 5; ++block) pair.push_back({noisy(0), noisy(gain), noisy(gain), noisy(0)});
    return pair;
  }
  std::vector<std::int64_t> samples(double gain) {
    std::vector<std::int64_t> made;
    for (int i = 0; i < plain_samples; ++i) made.push_back(std::llround(noisy(gain) * 1e9));
    return made;
  }

  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_{0, 0.01};
};

std::string with_header_again(const std::string& text) {
  return file_of("a machine that does not exist", text.substr(text.find('\n') + 1));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ArenaRecording, IsReadAsItWasWritten) {
  Made made;
  made.add(0, "quick", Truth::faster, 0.1);
  made.add(0, "cheat", Truth::cheat, 1).attempts[0] = {{}, "contest", "it remembers"};
  const Recording read = made.read();
  ASSERT_EQ(read.tasks.size(), 1U);
  ASSERT_EQ(read.tasks[0].candidates.size(), 2U);
  EXPECT_EQ(read.tasks[0].candidates[1].attempts[0].refused_by, "contest");
  ASSERT_EQ(read.tasks[0].candidates[0].attempts[0].pairs.size(), 24U);
  EXPECT_EQ(read.tasks[0].candidates[0].plain[3].candidate, made.recorded[0].candidates[0].plain[3].candidate);
  EXPECT_NEAR(read.tasks[0].candidates[0].attempts[0].pairs[5][2].candidate_second,
              made.recorded[0].candidates[0].attempts[0].pairs[5][2].candidate_second, 1e-9);
  EXPECT_NEAR(true_log_gain(read.tasks[0].candidates[0]), std::log1p(0.1), 0.01);
}

TEST(ArenaRecording, ACutOrEditedFileIsRefused) {
  Made made;
  made.add(0, "quick", Truth::faster, 0.1);
  const std::string text = made.file();
  ASSERT_EQ(made.refusal(text), "");
  EXPECT_NE(made.refusal(text.substr(0, text.size() / 2)).find("cut or was edited"), std::string::npos);
  const std::size_t last_line = text.rfind('\n', text.size() - 2);
  EXPECT_NE(made.refusal(text.substr(0, last_line + 1)).find("cut or was edited"), std::string::npos);
  EXPECT_NE(made.refusal(replaced(text, "\"one_shape\":true", "\"one_shape\":false")).find("cut or was edited"),
            std::string::npos);
  // With a header that fits, the line that is missing is.
  EXPECT_NE(made.refusal(with_header_again(text.substr(0, last_line + 1))).find("not all candidates"),
            std::string::npos);
  EXPECT_NE(made.refusal("{}\n").find("no recording"), std::string::npos);
}

TEST(ArenaRecording, AForgedTruthIsRefused) {
  Made made;
  made.add(0, "slow", Truth::slower, -0.1);
  const std::string text = made.file();
  ASSERT_EQ(made.refusal(text), "");
  // In the recording alone: it is not what the task declares.
  const std::string forged = with_header_again(replaced(text, "\"truth\":\"slower\"", "\"truth\":\"faster\""));
  EXPECT_NE(made.refusal(forged).find("the truth it declares"), std::string::npos);
  // In the task alone: it is not what was recorded.
  made.task_list[0].candidates[0].truth = Truth::faster;
  EXPECT_NE(made.refusal(text).find("the truth it declares"), std::string::npos);
  // In both: it is not what was measured.
  made.recorded[0].candidates[0].truth = Truth::faster;
  EXPECT_NE(made.refusal(made.file()).find("measured slower"), std::string::npos);
  made.task_list[0].candidates[0].truth = made.recorded[0].candidates[0].truth = Truth::equal;
  EXPECT_NE(made.refusal(made.file()).find("machine code"), std::string::npos);
  made.task_list[0].candidates[0].truth = made.recorded[0].candidates[0].truth = Truth::breaks;
  EXPECT_NE(made.refusal(made.file()).find("right at its witness"), std::string::npos);
  made.task_list[0].candidates[0].truth = made.recorded[0].candidates[0].truth = Truth::slower;
  made.task_list[0].candidates[0].gain = made.recorded[0].candidates[0].gain = -0.5;
  EXPECT_NE(made.refusal(made.file()).find("declared -50"), std::string::npos);
}

TEST(ArenaReplay, OursKeepsWhatIsFasterAndNothingElse) {
  Made made(4);
  for (std::size_t task = 0; task < 4; ++task) {
    made.add(task, "quick", Truth::faster, 0.1);
    made.add(task, "same", Truth::equal, 0);
    made.add(task, "slow", Truth::slower, -0.1);
    made.add(task, "cheat", Truth::cheat, 1).attempts[0] = {{}, "contest", "it remembers"};
    made.add(task, "unseen", Truth::breaks, 0.5).attempts[0] = {{}, "correctness", "wrong in workload end"};
  }
  const Replay result = replay(made.read(), {shipped_rule("cudadent")}, {});
  const Score& ours = result.scores.at(0);
  EXPECT_EQ(ours.runs, 80);
  EXPECT_EQ(ours.gains.kept, 80);
  EXPECT_EQ(ours.runs_with_bad_keep, 0);
  EXPECT_NEAR(ours.speed.mean, 1.1, 0.02);
  EXPECT_NEAR(result.best_speed, 1.1, 0.02);
}

TEST(ArenaReplay, APlantedBadRuleIsSeen) {
  Made made(4);
  for (std::size_t task = 0; task < 4; ++task) {
    made.add(task, "same", Truth::equal, 0);
    made.add(task, "slow", Truth::slower, -0.1);
    made.add(task, "cheat", Truth::cheat, 1).attempts[0] = {{}, "contest", "it remembers"};
    made.add(task, "unseen", Truth::breaks, 0.5).attempts[0] = {{}, "correctness", "wrong in workload end"};
  }
  const Rule bad{.name = "planted", .kind = Kind::at_least, .checks = Checks::one_shape};
  const Score score = replay(made.read(), {bad}, {}).scores.at(0);
  EXPECT_EQ(score.cheats.kept, 80);
  EXPECT_EQ(score.breaks.kept, 80);
  EXPECT_EQ(score.slower.kept, 0);
  // A coin for each: noise decides about what is equal.
  EXPECT_GT(score.runs_with_false_keep, 20);
  EXPECT_LT(score.runs_with_false_keep, 60);
  EXPECT_EQ(score.runs_with_bad_keep, 80);
}

// The k-th comparison has its share of alpha, as `cudadent compare` counts: what is kept as the first of a run is not
// as the billionth, of which 24 pairs can decide nothing any more.
TEST(ArenaReplay, OursSpendsTheAlphaOfARun) {
  Made made;
  made.add(0, "quick", Truth::faster, 0.05);
  const Recording recording = made.read();
  const auto replayed = [](const std::vector<RawPair>& pairs) -> workflow::PairSource {
    return [&pairs](int index) -> workflow::PairOutcome {
      return {.sample = workflow::pair_of(pairs.at(static_cast<std::size_t>(index)))};
    };
  };
  const Evidence evidence{.correct = true,
                          .pair = replayed(recording.tasks[0].candidates[0].attempts[0].pairs),
                          .equal_pair = replayed(recording.tasks[0].equal_pairs)};
  const Rule ours = shipped_rule("cudadent");
  EXPECT_TRUE(decide(ours, evidence, 1).keeps);
  EXPECT_FALSE(decide(ours, evidence, 1'000'000'000).keeps);
}

TEST(ArenaShipped, ReplaysTheSameEveryTime) {
  const Recording recording = shipped_recording();
  const auto rules = read_rules(data + "/rules.toml");
  ASSERT_TRUE(rules);
  for (const Noise noise : {Noise::recorded, Noise::simulated}) {
    const ReplayOptions options{.seeds = 1, .noise = noise};
    const Replay first = replay(recording, *rules, options);
    const Replay second = replay(recording, *rules, options);
    EXPECT_EQ(json_of(recording, first, first), json_of(recording, second, second));
  }
}

// What is asked of cudadent: at most 5 % of runs with a false keep, and no cheat kept, on 30 tasks and 20 seeds.
TEST(ArenaShipped, OursKeepsItsPromise) {
  const Recording recording = shipped_recording();
  EXPECT_GE(recording.tasks.size(), 30U);
  const Score ours = replay(recording, {shipped_rule("cudadent")}, {}).scores.at(0);
  EXPECT_EQ(ours.runs, static_cast<int>(recording.tasks.size()) * 20);
  EXPECT_LE(ours.false_keep_rate().rate, 0.05);
  EXPECT_GT(ours.cheats.offered, 0);
  EXPECT_EQ(ours.cheats.kept, 0);
  EXPECT_GT(ours.breaks.offered, 0);
  EXPECT_EQ(ours.breaks.kept, 0);
  EXPECT_GT(ours.gains.kept, 0) << "who keeps nothing keeps nothing false";
}

TEST(ArenaData, MistakesAreTold) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path();
  std::filesystem::copy(data + "/shared.toml", path / "shared.toml");
  std::filesystem::create_directory(path / "families");
  EXPECT_FALSE(read_tasks(path.string()));
  const auto told = [&](const std::string& from, const std::string& to) {
    std::ofstream(path / "families" / "chain.toml")
        << replaced(whole_file(data + "/families/chain.toml").value_or(""), from, to);
    const auto tasks = read_tasks(path.string());
    return tasks ? "" : tasks.error().to_string();
  };
  EXPECT_EQ(told("chain_4", "chain_four"), "");
  EXPECT_NE(told("truth = \"equal\"", "truth = \"nearly\"").find("'nearly' as its truth"), std::string::npos);
  EXPECT_NE(told("\"half_later\"", "\"half_nothing\"").find("'half_nothing', which there is not"), std::string::npos);
  EXPECT_NE(told("witness = { n = 3 }\n", "").find("a witness is for breaks"), std::string::npos);
  EXPECT_NE(told("name = \"chain_6\"", "name = \"chain_4\"").find("two tasks"), std::string::npos);
  std::ofstream(path / "rules.toml") << "[[rule]]\nname = \"x\"\nkind = \"guess\"\n";
  const auto rules = read_rules((path / "rules.toml").string());
  ASSERT_FALSE(rules);
  EXPECT_NE(rules.error().to_string().find("rule 'x' lacks"), std::string::npos);
}

// The recorder itself, on three candidates: not what times say, but who is who.
TEST(ArenaRecorder, TellsWhoIsWho) {
  std::vector<Task> tasks = shipped_tasks();
  ASSERT_FALSE(tasks.empty());
  tasks.resize(1);
  std::erase_if(tasks[0].candidates, [](const Candidate& one) {
    return one.name != "renamed" && one.name != "pairs_only" && one.name != "half_later";
  });
  ASSERT_EQ(tasks[0].candidates.size(), 3U);
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "recording.jsonl").string();
  Progress quiet(1, true);
  const auto done = record_all(tasks, file, {.pairs = 1, .equal_pairs = 1, .attempts = 1, .plain_runs = 1}, quiet);
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  const auto recording = read_recording(file, tasks);
  ASSERT_TRUE(recording) << recording.error().to_string();
  const RecordedTask& task = recording->tasks.at(0);
  const auto candidate = [&](const std::string& name) {
    for (const RecordedCandidate& one : task.candidates) {
      if (one.name == name) return one;
    }
    return RecordedCandidate{};
  };
  EXPECT_EQ(candidate("renamed").library, task.library);
  EXPECT_EQ(candidate("renamed").attempts.at(0).pairs.size(), 1U);
  EXPECT_TRUE(candidate("renamed").shapes);
  EXPECT_TRUE(candidate("pairs_only").witnessed);
  EXPECT_TRUE(candidate("pairs_only").one_shape);
  EXPECT_FALSE(candidate("pairs_only").shapes);
  EXPECT_EQ(candidate("pairs_only").attempts.at(0).refused_by, "correctness");
  EXPECT_TRUE(candidate("half_later").one_shape);
  EXPECT_NE(candidate("half_later").attempts.at(0).refused_by, "");
}

TEST(ArenaTable, APageWithoutMarksIsRefused) {
  EXPECT_FALSE(page_with("# Arena\n", "t\n"));
  const auto page = page_with("a\n<!-- tables: begin -->\nold\n<!-- tables: end -->\nb\n", "t\n");
  ASSERT_TRUE(page);
  EXPECT_EQ(*page, "a\n<!-- tables: begin -->\n\nt\n\n<!-- tables: end -->\nb\n");
}

}  // namespace
}  // namespace flashmoe::arena

// Sessions start this program as their worker, and the recorder as its plain process.
int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "plain") return flashmoe::arena::plain_main(argv[2]);
  if (flashmoe::workflow::is_worker_call(argc, argv)) return flashmoe::workflow::worker_main();
  return flashmoe::run_tests(argc, argv);
}
