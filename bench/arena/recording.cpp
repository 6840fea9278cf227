#include "recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::arena {
namespace {

using workflow::AbbaBlock;

constexpr int format = 1;
constexpr double nanosecond = 1e-9;
// A declared gain may be off by this: the call's fixed part is not in the number of steps.
constexpr double construction_error = 0.01;
constexpr double contradiction_alpha = 0.001;

Json json_of(const RawPair& pair) {
  Json json = Json::array();
  for (const AbbaBlock& block : pair) {
    for (const double seconds : {block.base_first, block.candidate_first, block.candidate_second, block.base_second}) {
      json.push_back(std::llround(seconds / nanosecond));
    }
  }
  return json;
}

Json json_of(const std::vector<RawPair>& pairs) {
  Json json = Json::array();
  for (const RawPair& pair : pairs) json.push_back(json_of(pair));
  return json;
}

std::vector<RawPair> pairs_in(const Json& json, const char* key) {
  std::vector<RawPair> pairs;
  for (const Json& one : list_in(json, key)) {
    RawPair pair;
    const auto at = [&](std::size_t i) { return one.at(i).get<double>() * nanosecond; };
    for (std::size_t i = 0; i + 4 <= one.size(); i += 4) pair.push_back({at(i), at(i + 1), at(i + 2), at(i + 3)});
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

std::vector<std::int64_t> integers_in(const Json& json, const char* key) {
  std::vector<std::int64_t> integers;
  for (const Json& one : list_in(json, key)) integers.push_back(one.get<std::int64_t>());
  return integers;
}

Json json_of(const std::string& task, const RecordedCandidate& candidate) {
  Json json{{"task", task}, {"candidate", candidate.name}, {"truth", name_of(candidate.truth)}};
  if (candidate.gain) json["gain"] = *candidate.gain;
  json["data"] = candidate.data;
  json["library"] = candidate.library;
  json["witnessed"] = candidate.witnessed;
  json["one_shape"] = candidate.one_shape;
  json["shapes"] = candidate.shapes;
  json["attempts"] = Json::array();
  for (const Attempt& attempt : candidate.attempts) {
    Json one{{"pairs", json_of(attempt.pairs)}};
    if (!attempt.refused_by.empty()) {
      one["refused_by"] = attempt.refused_by;
      one["why"] = attempt.why;
    }
    json["attempts"].push_back(std::move(one));
  }
  json["plain"] = Json::array();
  for (const PlainPair& pair : candidate.plain) {
    json["plain"].push_back({{"base", pair.base}, {"candidate", pair.candidate}});
  }
  return json;
}

RecordedCandidate candidate_in(const Json& json) {
  RecordedCandidate candidate{.name = text_in(json, "candidate"),
                              .truth = truth_of(text_in(json, "truth")).value_or(Truth::cheat),
                              .data = text_in(json, "data"),
                              .library = text_in(json, "library"),
                              .witnessed = flag_in(json, "witnessed"),
                              .one_shape = flag_in(json, "one_shape"),
                              .shapes = flag_in(json, "shapes")};
  if (field_in(json, "gain") != nullptr) candidate.gain = number_in(json, "gain");
  for (const Json& one : list_in(json, "attempts")) {
    candidate.attempts.push_back({pairs_in(one, "pairs"), text_in(one, "refused_by"), text_in(one, "why")});
  }
  for (const Json& one : list_in(json, "plain")) {
    candidate.plain.push_back({integers_in(one, "base"), integers_in(one, "candidate")});
  }
  return candidate;
}

Diagnostic refusal(std::string message) {
  return {.message = std::move(message), .fix = "arena record makes a new one"};
}

std::vector<double> log_ratios_of(const std::vector<RawPair>& pairs) {
  std::vector<double> x;
  for (const RawPair& pair : pairs) x.push_back(workflow::pair_of(pair).log_ratio);
  return x;
}

std::vector<double> all_log_ratios(const RecordedCandidate& candidate) {
  std::vector<double> x;
  for (const Attempt& attempt : candidate.attempts) {
    const std::vector<double> some = log_ratios_of(attempt.pairs);
    x.insert(x.end(), some.begin(), some.end());
  }
  return x;
}

// Empty, or how what was measured contradicts what is declared.
std::string contradiction(const RecordedTask& task, const RecordedCandidate& candidate) {
  if ((candidate.truth == Truth::equal) != (candidate.library == task.library)) {
    return "equal are candidates with the machine code of the base, and no others";
  }
  if ((candidate.truth == Truth::breaks || candidate.truth == Truth::wrong) && !candidate.witnessed) {
    return "it was right at its witness";
  }
  if (!is_honest(candidate.truth)) return {};
  const auto interval = workflow::confidence_sequence(all_log_ratios(candidate), contradiction_alpha, 1);
  if (candidate.truth == Truth::faster && interval.upper < 0) return "declared faster, and measured slower";
  if (candidate.truth == Truth::slower && interval.lower > 0) return "declared slower, and measured faster";
  const double declared = std::log1p(candidate.gain.value_or(0));
  if (candidate.gain &&
      (declared < interval.lower - construction_error || declared > interval.upper + construction_error)) {
    return fmt::format("declared {:+.1f} %, measured {:+.1f} %", 100 * *candidate.gain,
                       100 * std::expm1(interval.mean));
  }
  return {};
}

Result<Done> check_candidate(const RecordedTask& recorded, const RecordedCandidate& candidate, const Task& task) {
  const std::string name = task.name + " " + candidate.name;
  const auto known = std::find_if(task.candidates.begin(), task.candidates.end(),
                                  [&](const Candidate& one) { return one.name == candidate.name; });
  if (known == task.candidates.end()) return refusal(name + " is recorded, and not among the tasks");
  if (candidate.data != data_hash(task, &*known) || candidate.truth != known->truth || candidate.gain != known->gain) {
    return refusal(name + ": the task's data, or the truth it declares, is not that of the recording");
  }
  if (candidate.attempts.empty() || candidate.plain.empty()) return refusal(name + " has no measurements");
  const std::string contradicted = contradiction(recorded, candidate);
  if (!contradicted.empty()) return refusal(name + ": " + contradicted);
  return Done{};
}

Result<Done> check(const Recording& recording, const std::vector<Task>& tasks) {
  if (recording.tasks.size() != tasks.size()) {
    return refusal(fmt::format("{} tasks are recorded, and there are {}", recording.tasks.size(), tasks.size()));
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const RecordedTask& recorded = recording.tasks[i];
    if (recorded.name != tasks[i].name || recorded.data != data_hash(tasks[i], nullptr)) {
      return refusal("task " + tasks[i].name + " is not recorded, or not as it is now");
    }
    if (recorded.candidates.size() != tasks[i].candidates.size()) {
      return refusal("not all candidates of task " + tasks[i].name + " are recorded");
    }
    for (const RecordedCandidate& candidate : recorded.candidates) {
      if (const auto right = check_candidate(recorded, candidate, tasks[i]); !right) return right.error();
    }
  }
  return Done{};
}

double log_median(const std::vector<std::int64_t>& nanoseconds) {
  return std::log(std::max(1.0, workflow::median_of({nanoseconds.begin(), nanoseconds.end()})));
}

}  // namespace

std::string lines_of(const RecordedTask& task) {
  std::string lines = one_line(Json{{"task", task.name},
                                    {"family", task.family},
                                    {"data", task.data},
                                    {"library", task.library},
                                    {"load", task.load},
                                    {"measured_again", task.measured_again},
                                    {"equal_pairs", json_of(task.equal_pairs)}}) +
                      "\n";
  for (const RecordedCandidate& candidate : task.candidates) lines += one_line(json_of(task.name, candidate)) + "\n";
  return lines;
}

std::string file_of(const std::string& machine, const std::string& lines) {
  const Json header{{"arena", format},
                    {"machine", machine},
                    {"lines", std::count(lines.begin(), lines.end(), '\n')},
                    {"sha256", sha256_hex(lines)}};
  return one_line(header) + "\n" + lines;
}

Result<Recording> parse_recording(const std::string& text, const std::vector<Task>& tasks) {
  const std::size_t end = text.find('\n');
  const Json header = parse_json(text.substr(0, end));
  if (end == std::string::npos || integer_in(header, "arena") != format) {
    return refusal(fmt::format("this is no recording of the arena in format {}", format));
  }
  const std::string lines = text.substr(end + 1);
  if (integer_in(header, "lines") != std::count(lines.begin(), lines.end(), '\n') ||
      text_in(header, "sha256") != sha256_hex(lines)) {
    return refusal("the recording is cut or was edited: its lines are not those that its header counts and hashes");
  }
  Recording recording{.machine = text_in(header, "machine")};
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const Json json = parse_json(line);
    if (field_in(json, "candidate") == nullptr) {
      RecordedTask task{.name = text_in(json, "task"),
                        .family = text_in(json, "family"),
                        .data = text_in(json, "data"),
                        .library = text_in(json, "library"),
                        .measured_again = integer_in(json, "measured_again"),
                        .equal_pairs = pairs_in(json, "equal_pairs")};
      for (const Json& load : list_in(json, "load")) task.load.push_back(load.get<double>());
      recording.tasks.push_back(std::move(task));
    } else if (recording.tasks.empty() || recording.tasks.back().name != text_in(json, "task")) {
      return refusal("a candidate of task " + text_in(json, "task") + " stands beside another task");
    } else {
      recording.tasks.back().candidates.push_back(candidate_in(json));
    }
  }
  if (const auto right = check(recording, tasks); !right) return right.error();
  return recording;
}

Result<Recording> read_recording(const std::string& file, const std::vector<Task>& tasks) {
  const auto text = whole_file(file);
  if (!text) return Diagnostic{.message = "cannot read the recording", .fix = "arena record makes one", .file = file};
  auto recording = parse_recording(*text, tasks);
  if (recording) return recording;
  Diagnostic problem = recording.error();
  problem.file = file;
  return problem;
}

double true_log_gain(const RecordedCandidate& candidate) {
  if (candidate.truth == Truth::equal) return 0;
  if (candidate.gain) return std::log1p(*candidate.gain);
  const double measured = workflow::moments_of(all_log_ratios(candidate)).mean;
  return candidate.truth == Truth::slower ? std::min(0.0, measured) : std::max(0.0, measured);
}

double plain_log_gain(const RecordedCandidate& candidate) {
  std::vector<double> x;
  for (const PlainPair& pair : candidate.plain) {
    if (pair.candidate.empty()) continue;
    x.push_back(log_median(pair.base) - log_median(pair.candidate));
  }
  return x.empty() ? 0 : workflow::median_of(x);
}

}  // namespace flashmoe::arena
