#include "table.hpp"

#include <fmt/format.h>

#include "support/json_text.hpp"

namespace flashmoe::arena {
namespace {

constexpr const char* first_mark = "<!-- tables: begin -->\n";
constexpr const char* last_mark = "<!-- tables: end -->";

std::string rate_text(const workflow::RateInterval& rate) {
  return fmt::format("{:.1f} % [{:.1f}, {:.1f}]", 100 * rate.rate, 100 * rate.lower, 100 * rate.upper);
}

std::string count_text(const Count& count) {
  return fmt::format("{} of {}", count.kept, count.offered);
}

std::string table_of(const Replay& replay, bool what_if) {
  std::string text =
      "| rule | runs with a false keep | in tasks | equal kept | slower kept | cheats kept | break on unseen shapes, "
      "kept | "
      "wrong, kept | true gains kept, below 2 % | from 2 % on | true speed |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Score& score : replay.scores) {
    if (score.what_if != what_if) continue;
    text += fmt::format("| {} | {} | {} of {} | {} | {} | {} | {} | {} | {} | {} | {:.3f}x [{:.3f}, {:.3f}] |\n",
                        score.rule, rate_text(score.false_keep_rate()), score.tasks_with_false_keep, replay.tasks,
                        count_text(score.equal), count_text(score.slower), count_text(score.cheats),
                        count_text(score.breaks), count_text(score.wrong), count_text(score.small_gains),
                        count_text(score.gains), score.speed.mean, score.speed.lower, score.speed.upper);
  }
  return text;
}

int measured_again(const Recording& recording) {
  int count = 0;
  for (const RecordedTask& task : recording.tasks) count += task.measured_again;
  return count;
}

Json json_of(const Count& count) {
  return {{"kept", count.kept}, {"offered", count.offered}};
}

Json json_of(const workflow::RateInterval& rate) {
  return {{"rate", rate.rate}, {"lower", rate.lower}, {"upper", rate.upper}};
}

Json json_of(const Replay& replay) {
  Json scores = Json::array();
  for (const Score& score : replay.scores) {
    scores.push_back(
        {{"rule", score.rule},
         {"what_if", score.what_if},
         {"runs", score.runs},
         {"runs_with_false_keep", json_of(score.false_keep_rate())},
         {"runs_with_bad_keep", json_of(score.bad_keep_rate())},
         {"tasks_with_false_keep", score.tasks_with_false_keep},
         {"equal", json_of(score.equal)},
         {"slower", json_of(score.slower)},
         {"cheats", json_of(score.cheats)},
         {"breaks", json_of(score.breaks)},
         {"wrong", json_of(score.wrong)},
         {"small_gains", json_of(score.small_gains)},
         {"gains", json_of(score.gains)},
         {"speed", {{"mean", score.speed.mean}, {"lower", score.speed.lower}, {"upper", score.speed.upper}}},
         {"mean_pairs", score.mean_pairs}});
  }
  return {{"tasks", replay.tasks},
          {"candidates", replay.candidates},
          {"seeds", replay.seeds},
          {"best_speed", replay.best_speed},
          {"pair_spread", replay.pair_spread},
          {"plain_spread", replay.plain_spread},
          {"scores", scores}};
}

}  // namespace

std::string tables_of(const Recording& recording, const Replay& recorded, const Replay& simulated) {
  return fmt::format(
             "{} tasks, {} candidates, {} seeds: {} runs a rule. Recorded on {}. Equal builds spread by {:.1f} % from "
             "pair to "
             "pair and by {:.1f} % from one plain run to the next (medians over the tasks). {} pairs of honest kernels "
             "were "
             "refused by the guards and measured again. With all true gains and nothing else the speed would be "
             "{:.3f}x.\n\n",
             recorded.tasks, recorded.candidates, recorded.seeds, recorded.tasks * recorded.seeds, recording.machine,
             100 * recorded.pair_spread, 100 * recorded.plain_spread, measured_again(recording), recorded.best_speed) +
         "**Every rule with the checks and the clock it comes with** (measured on that machine)\n\n" +
         table_of(recorded, false) +
         "\n**The same ways to decide behind cudadent's gates, on its pairs** (measured)\n\n" +
         table_of(recorded, true) +
         "\n**Every rule as it comes, under the simulated noise of a rented machine** (simulated around the recorded "
         "gains)\n\n" +
         table_of(simulated, false) + "\n**Behind cudadent's gates, on its pairs** (simulated)\n\n" +
         table_of(simulated, true);
}

std::string json_of(const Recording& recording, const Replay& recorded, const Replay& simulated) {
  return indented(Json{{"machine", recording.machine},
                       {"measured_again", measured_again(recording)},
                       {"recorded", json_of(recorded)},
                       {"simulated", json_of(simulated)}});
}

Result<std::string> page_with(const std::string& page, const std::string& tables) {
  const std::size_t begin = page.find(first_mark);
  const std::size_t end = page.find(last_mark);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return Diagnostic{.message = "the page has no place for the tables",
                      .fix = fmt::format("a line {} and a line {}", "<!-- tables: begin -->", last_mark)};
  }
  const std::size_t after = begin + std::string(first_mark).size();
  return page.substr(0, after) + "\n" + tables + "\n" + page.substr(end);
}

}  // namespace flashmoe::arena
