#include "workflow/report/briefing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "support/foreign_text.hpp"
#include "support/text.hpp"
#include "support/whole_file.hpp"
#include "workflow/compare/counters.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/optimize/proposal.hpp"
#include "workflow/project/fingerprint.hpp"
#include "workflow/project/point.hpp"
#include "workflow/report/kept.hpp"
#include "workflow/report/status.hpp"
#include "workflow/trial/allowed.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// Bytes of one text. Lists begin with as many and are cut from there, the least important first.
constexpr std::size_t a_name = 60, a_sentence = 220, a_source_line = 100;
constexpr std::size_t most_kept = 6, most_failed = 10, most_moves = 16, most_files = 12, most_choices = 8;
constexpr std::size_t most_command = 600;
constexpr std::size_t most_points = 200;  // of candidates that are looked up: a few milliseconds each

std::string capped(std::string_view text, std::size_t most) {
  return visible(trimmed(text), most);
}

// ---- records ------------------------------------------------------------------------------------------------------

const ProfileFacts* profile_in(const Record& record) {
  if (const auto* profile = record.as<ProfileRecord>()) return &profile->profile;
  const auto* run = record.as<GateRecord>();
  if (run == nullptr) return nullptr;
  for (const GateResult& gate : run->gates) {
    const auto* facts = std::get_if<ProfileFacts>(&gate.facts);
    if (facts != nullptr && !gate.not_run) return facts;
  }
  return nullptr;
}

bool is_of(const Record& record, const std::string& sources) {
  const std::string* hash = find_named(record.hashes, hash_of_sources);
  return hash != nullptr && *hash == sources;
}

std::string evidence_of(const Record& record) {
  return record.evidence ? text_of(*record.evidence) : "not recorded";
}

// ---- what was tried -----------------------------------------------------------------------------------------------

struct Tried {
  const Record* record;
  const IterationRecord* iteration;
  const CompareRecord* comparison = nullptr;
  bool kept = false;
  [[nodiscard]] bool promises() const {
    if (record->verdict == name_of(Decision::keep)) return true;
    const bool predicted = record->verdict == predicted_word && comparison != nullptr && comparison->predicted;
    return predicted && comparison->predicted->is_worth_keeping();
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void find_kept(const Project& project, std::vector<Tried>& all) {
  std::vector<std::string> candidates;
  for (Tried& one : all) {
    one.kept = one.iteration->decision == "advance";
    if (!one.kept && !one.iteration->candidate.empty()) candidates.push_back(one.iteration->candidate);
  }
  const auto kept = kept_in_history(project, candidates);
  if (!kept) return;
  for (Tried& one : all) one.kept = one.kept || kept->contains(one.iteration->candidate);
}

// On this device, the latest first.
std::vector<Tried> tried_on(const Project& project, const std::vector<Record>& records, const std::string& device) {
  std::map<std::string, const CompareRecord*> comparisons;
  std::vector<Tried> all;
  for (const Record& record : records) {
    if (!is_usable(record) || record.device != device) continue;
    if (const auto* comparison = record.as<CompareRecord>()) comparisons[record.id] = comparison;
    if (const auto* iteration = record.as<IterationRecord>()) {
      const auto found = comparisons.find(iteration->comparison);
      all.push_back({.record = &record,
                     .iteration = iteration,
                     .comparison = found == comparisons.end() ? nullptr : found->second});
    }
  }
  std::reverse(all.begin(), all.end());
  find_kept(project, all);
  return all;
}

BriefTrial trial_of(const Tried& one) {
  const IterationRecord& iteration = *one.iteration;
  return {.verdict = capped(one.record->verdict, a_name),
          .why = capped(iteration.ground.empty() ? iteration.summary : iteration.ground, a_sentence),
          .hypothesis = capped(iteration.hypothesis, a_source_line),
          .record = capped(one.record->id, a_name)};
}

// Failures that differ in their figures alone are of one kind.
std::string kind_of_trial(const BriefTrial& trial) {
  std::string kind = trial.verdict + ": ";
  for (const char c : trial.why) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-' && c != '+') kind += c;
  }
  return kind;
}

void tell_trials(const std::vector<Tried>& all, Briefing& briefing) {
  std::map<std::string, std::size_t> places;
  for (const Tried& one : all) {
    BriefTrial trial = trial_of(one);
    if (one.kept) {
      briefing.kept.all.push_back(std::move(trial));
      continue;
    }
    const auto [place, is_new] = places.emplace(kind_of_trial(trial), briefing.failed.all.size());
    if (is_new) {
      briefing.failed.all.push_back(std::move(trial));
    } else {
      ++briefing.failed.all[place->second].times;
    }
  }
}

// ---- the speed ----------------------------------------------------------------------------------------------------

// Of the gates' figures the one with the best lower bound, else the best prediction against the baseline.
std::optional<BriefSpeed> gated_speed(const Project& project, const std::vector<Record>& records,
                                      const std::string& device) {
  std::optional<BriefSpeed> best;
  double best_bound = 0, best_ratio = 0;
  const Workload* target = target_workload(project);
  for (const Record& record : records) {
    const auto* run = record.as<GateRecord>();
    if (run == nullptr || record.device != device || !is_usable(record) || target == nullptr) continue;
    for (const GateResult& gate : run->gates) {
      const auto* facts = std::get_if<PerformanceFacts>(&gate.facts);
      if (facts == nullptr) continue;
      const MeasuredWorkload* measured = find_named(facts->workloads, target->name);
      if (measured != nullptr && measured->speed && measured->speed->ratio.lower > best_bound) {
        const RatioFacts& ratio = measured->speed->ratio;
        best_bound = ratio.lower;
        best = {.says = fmt::format("{:.2f}x the baseline [{:.2f}, {:.2f}] at {}", ratio.mean, ratio.lower, ratio.upper,
                                    capped(target->name, a_name)),
                .evidence = evidence_of(record),
                .record = record.id};
      }
      if (best_bound == 0 && facts->predicted && facts->predicted->ratio > best_ratio) {
        best_ratio = facts->predicted->ratio;
        best = {.says = fmt::format("{:.2f}x the baseline at {}, predicted", best_ratio,
                                    capped(facts->predicted->workload, a_name)),
                .evidence = evidence_of(record),
                .record = record.id};
      }
    }
  }
  return best;
}

// Where nothing is gated against: cycles of the best kept version, beside those of the first one's parent.
std::optional<BriefSpeed> kept_speed(const std::vector<Tried>& all) {
  const Tried *best = nullptr, *first = nullptr;
  for (const Tried& one : all) {
    if (!one.kept || one.comparison == nullptr || !one.comparison->predicted) continue;
    if (best == nullptr || one.comparison->predicted->candidate_cycles < best->comparison->predicted->candidate_cycles)
      best = &one;
    first = &one;  // the latest come first
  }
  if (best == nullptr) return std::nullopt;
  const double before = first->comparison->predicted->base_cycles, now = best->comparison->predicted->candidate_cycles;
  return BriefSpeed{
      .says = fmt::format("{:.0f} cycles a call predicted at {}, {:.0f} before the first change ({:.2f}x)", now,
                          capped(best->iteration->workload, a_name), before, before / now),
      .evidence = evidence_of(*best->record),
      .record = best->record->id};
}

// ---- the bottleneck -----------------------------------------------------------------------------------------------

// Of a file in the project; links that lead out of it are not followed.
std::string source_line(const Project& project, const CountedLine& line) {
  std::error_code failed;
  const fs::path root = fs::canonical(project.directory, failed);
  const fs::path file = fs::canonical(root / line.file, failed);
  if (failed) return "";
  const fs::path inside = file.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") return "";
  const auto text = whole_file(file.string());
  if (!text) return "";
  std::istringstream in(*text);
  std::string found;
  for (int number = 0; number < line.line && std::getline(in, found); ++number) {
  }
  return capped(found, a_source_line);
}

BriefBottleneck bottleneck_of(const Project& project, const Record& record, const ProfileFacts& facts) {
  const BottleneckFacts& named = *facts.bottleneck;
  BriefBottleneck told{.rule = capped(named.rule, a_name),
                       .says = capped(named.says, a_sentence),
                       .change = capped(named.change, a_sentence),
                       .expected = named.expected,
                       .expected_gain = named.expected_gain,
                       .workload = capped(facts.workload, a_name),
                       .record = record.id};
  told.expected.name = capped(named.expected.name, a_name);
  for (const CountedLine& line : named.lines) {
    told.lines.push_back({.place = fmt::format("{}:{}", capped(line.file, a_name), line.line),
                          .text = source_line(project, line),
                          .says = fmt::format("{:.0f} of {:.0f} {} ({:.0f} %)", line.own, line.all,
                                              capped(line.count, a_name), 100 * line.own / std::max(line.all, 1.0))});
  }
  for (const std::string& rule : facts.further)
    if (told.further.size() < 4) told.further.push_back(capped(rule, a_name));
  return told;
}

void tell_bottleneck(const Project& project, const std::vector<Record>& records, const BriefRequest& request,
                     Briefing& briefing) {
  const Record* fresh = fresh_profile(project, records, request.device);
  if (fresh == nullptr) {
    briefing.no_bottleneck = "no profile of these sources on this device" +
                             (request.no_profile.empty() ? "" : ": " + in_marks(request.no_profile, a_sentence));
    return;
  }
  const ProfileFacts& facts = *profile_in(*fresh);
  if (facts.bottleneck) {
    briefing.bottleneck = bottleneck_of(project, *fresh, facts);
  } else if (fresh->verdict == name_of(Outcome::fails)) {
    briefing.no_bottleneck = "a wrong kernel has none: mend it first (record " + fresh->id + ")";
  } else {
    briefing.no_bottleneck = "no rule finds one in the counters (record " + fresh->id + ")";
  }
}

// ---- what may be changed ------------------------------------------------------------------------------------------

// Points that a candidate had, as point.toml says them.
std::set<std::string> tried_points(const Project& project, const std::vector<Tried>& all) {
  std::set<std::string> points{point_text(project, project.point)};
  for (std::size_t i = 0; i < std::min(all.size(), most_points); ++i) {
    const std::string& candidate = all[i].iteration->candidate;
    if (candidate.empty()) continue;
    if (const auto point = run_git(project.directory, {"show", fmt::format("{}:./{}", candidate, point_file_name)}))
      points.insert(*point + "\n");  // run_git() takes the last newline
  }
  return points;
}

void tell_moves(const Project& project, const std::vector<Tried>& all, const std::string& side, Briefing& briefing) {
  std::vector<std::string> files = editable_files(project);
  for (const std::string& file : files) briefing.files.all.push_back(capped(file, a_source_line));
  if (project.tunables.empty()) return;
  const std::set<std::string> tried = tried_points(project, all);
  for (const Tunable& tunable : project.tunables) {
    if (!tunable.on.empty() && tunable.on != side) continue;
    const double current = project.point.at(tunable.name);
    BriefMove move{.tunable = capped(tunable.name, a_name), .value = value_text(tunable, current)};
    for (const double choice : tunable.choices) {
      Values point = project.point;
      point[tunable.name] = choice;
      if (choice == current || broken_rule(project, point) != nullptr || tried.contains(point_text(project, point)))
        continue;
      if (move.untried.size() == most_choices) {
        move.untried.emplace_back("...");
        break;
      }
      move.untried.push_back(value_text(tunable, choice));
    }
    if (!move.untried.empty()) briefing.moves.all.push_back(std::move(move));
  }
}

// ---- the budget ---------------------------------------------------------------------------------------------------

BriefBudget budget_of(const Project& project, const std::vector<Record>& records, const BriefRequest& request) {
  BriefBudget budget{.most_iterations = request.max_iterations.value_or(project.thresholds.max_iterations),
                     .most_minutes = request.max_minutes.value_or(project.thresholds.max_minutes),
                     .dollars_an_hour = project.cost.machine_per_hour + project.cost.agent_per_hour,
                     .most_dollars = request.max_dollars};
  std::set<std::string> inside;  // comparisons whose time is their iteration's
  for (const Record& record : records)
    if (const auto* iteration = record.as<IterationRecord>()) inside.insert(iteration->comparison);
  for (const Record& record : records) {
    if (record.run != request.run || !is_usable(record) || inside.contains(record.id)) continue;
    budget.iterations += record.as<IterationRecord>() != nullptr ? 1 : 0;
    budget.minutes += record.seconds / 60;
    budget.dollars += record.cost.total;
  }
  return budget;
}

// ---- what to do now -----------------------------------------------------------------------------------------------

// Whether a trial would find something: tracked files anywhere in the repository, new ones in the project.
bool has_edit(const Project& project) {
  const auto tracked = run_git(project.directory, {"status", "--porcelain", "--untracked-files=no", "--", ":/"});
  if (tracked && !tracked->empty()) return true;
  const auto here = run_git(project.directory, {"status", "--porcelain", "--untracked-files=all", "--", "."});
  if (!here) return false;
  const std::vector<std::string> lines = lines_of(*here);
  return std::any_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return line.find(".cudadent/") == std::string::npos; });
}

// The trial of the very edit that stands in the tree; nullptr: it was not tried.
const Tried* trial_of_edit(const Project& project, const std::vector<Tried>& all) {
  const auto head = run_git(project.directory, {"rev-parse", "--verify", "--quiet", "HEAD^{commit}"});
  if (!head) return nullptr;
  for (const Tried& one : all) {
    if (one.iteration->parent != *head || one.iteration->candidate.empty() || one.kept) continue;
    if (run_git(project.directory, {"diff", "--quiet", one.iteration->candidate, "--", ":/"})) return &one;
  }
  return nullptr;
}

std::string next_of_edit(const Project& project, const Tried& tried) {
  const std::string here = project_argument(project.directory);
  const std::string git = here.empty() ? "git" : "git -C" + here;
  if (!tried.promises()) {
    std::string files;
    for (const std::string& file : tried.iteration->files) files += " " + shell_word(":/" + file);
    if (files.size() > most_command / 2) files = " :/";
    return git + " stash push --include-untracked --" + files;
  }
  const std::string why = capped(tried.iteration->hypothesis, a_source_line);
  return fmt::format("{} add --all . && {} commit -m {}", git, git, shell_word(why.empty() ? "say what it is" : why));
}

std::string next_of(const Project& project, const Briefing& briefing, const StatusReport& status, const Tried* edit) {
  const std::string here = project_argument(project.directory);
  const std::string on = " --device " + briefing.device;
  if (edit != nullptr) return next_of_edit(project, *edit);
  if (briefing.budget.is_spent()) return "cudadent journal" + here + " --summary " + shell_word(briefing.run);
  if (!briefing.edit.empty()) return "cudadent try" + here + on + " --because 'why it should help'";
  if (!briefing.gate || !briefing.gate->of_these_sources) return "cudadent gate" + here + on;
  const bool is_wrong =
      briefing.gate->outcome == name_of(Outcome::fails) || briefing.gate->outcome == name_of(Outcome::could_not_run);
  if (is_wrong) return status.devices.front().next;
  if (!briefing.bottleneck && briefing.no_bottleneck.starts_with("no profile")) return "cudadent profile" + here + on;
  if (!briefing.moves.all.empty()) return "cudadent optimize" + here + on + " --run " + shell_word(briefing.run);
  return "cudadent try" + here + on + " --because 'why it should help'";
}

template <class T>
void keep_first(Shown<T>& list, std::size_t most) {
  if (list.all.size() <= most) return;
  list.more += list.all.size() - most;
  list.all.resize(most);
}

template <class T>
bool drop_last(Shown<T>& list, std::size_t least) {
  if (list.all.size() <= least) return false;
  keep_first(list, list.all.size() - 1);
  return true;
}

// From the least important on: what was kept is in the history, what may be edited can be listed.
void fit(Briefing& briefing) {
  keep_first(briefing.kept, most_kept);
  keep_first(briefing.failed, most_failed);
  keep_first(briefing.moves, most_moves);
  keep_first(briefing.files, most_files);
  while (most_tokens_of(briefing_text(briefing)) > most_brief_tokens) {
    const bool dropped = drop_last(briefing.kept, 1) || drop_last(briefing.files, 3) || drop_last(briefing.failed, 3) ||
                         drop_last(briefing.moves, 3) || drop_last(briefing.failed, 1) ||
                         drop_last(briefing.moves, 1) || drop_last(briefing.files, 1);
    if (!dropped) return;
  }
}

}  // namespace

bool BriefBudget::is_spent() const {
  return iterations >= most_iterations || minutes >= most_minutes || (most_dollars && dollars >= *most_dollars);
}

const Record* fresh_profile(const Project& project, const std::vector<Record>& records, const std::string& device) {
  const std::string sources = sources_hash(project);
  const Workload* target = target_workload(project);
  const Record* found = nullptr;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    const ProfileFacts* facts = profile_in(*record);
    if (facts == nullptr || facts->debug || record->device != device || !is_usable(*record) || !is_of(*record, sources))
      continue;
    if (target != nullptr && facts->workload == target->name) return &*record;
    if (found == nullptr) found = &*record;
  }
  return found;
}

Briefing briefing_of(const Project& project, const std::vector<Record>& records, const BriefRequest& request) {
  Briefing briefing{.project = capped(project.name, a_name), .device = request.device, .run = request.run};
  StatusReport status = status_of(project, records);
  std::erase_if(status.devices, [&](const DeviceStatus& one) { return one.device != request.device; });
  if (!status.devices.empty()) {
    const DeviceStatus& last = status.devices.front();
    const auto record =
        std::find_if(records.begin(), records.end(), [&](const Record& one) { return one.id == last.id; });
    briefing.gate = BriefGate{.outcome = outcome_of(last),
                              .summary = capped(last.summary, a_sentence),
                              .record = last.id,
                              .of_these_sources = is_of(*record, sources_hash(project))};
  }
  if (!request.problems.empty()) {
    const std::size_t more = request.problems.size() - 1;
    briefing.journal =
        capped(request.problems.front(), a_sentence) + (more > 0 ? fmt::format(", and {} more", more) : "");
  }
  const std::vector<Tried> tried = tried_on(project, records, request.device);
  tell_trials(tried, briefing);
  briefing.speed = gated_speed(project, records, request.device);
  if (!briefing.speed) briefing.speed = kept_speed(tried);
  tell_bottleneck(project, records, request, briefing);
  tell_moves(project, tried, request.device == "cpu" ? "cpu" : "cuda", briefing);
  briefing.budget = budget_of(project, records, request);
  const Tried* edit = nullptr;
  if (has_edit(project)) {
    edit = trial_of_edit(project, tried);
    briefing.edit = edit == nullptr ? "not tried yet" : "tried: " + capped(edit->record->verdict, a_name);
  }
  briefing.next = next_of(project, briefing, status, edit);
  if (briefing.next.size() > most_command) briefing.next = "cudadent status";
  fit(briefing);
  return briefing;
}

}  // namespace flashmoe::workflow
