// What was measured, once: raw blocks of every candidate and how every check answered. A file of JSON lines: a header
// with a hash of the rest, then a line for each task and a line for each candidate. Times are whole nanoseconds a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "tasks.hpp"
#include "workflow/statistics/pair.hpp"

namespace flashmoe::arena {

using RawPair = std::vector<workflow::AbbaBlock>;

// The base and the candidate one after the other, each in a fresh process.
struct PlainPair {
  std::vector<std::int64_t> base{}, candidate{};
};

// The gates and the contest, asked once.
struct Attempt {
  std::vector<RawPair> pairs{};
  std::string refused_by{};  // "correctness", or "contest" in the pair behind the last; empty: nobody
  std::string why{};
};

struct RecordedCandidate {
  std::string name{};
  Truth truth = Truth::equal;
  std::optional<double> gain{};
  std::string data{};      // data_hash()
  std::string library{};   // hash of its machine code
  bool witnessed = false;  // wrong at its witness, as seen by the project's own tolerance
  bool one_shape = false;  // plain check at the target
  bool shapes = false;     // plain sweep, the target included
  std::vector<PlainPair> plain{};
  std::vector<Attempt> attempts{};
};

struct RecordedTask {
  std::string name{}, family{}, data{}, library{};
  std::vector<double> load{};          // load averages, before and after
  int measured_again = 0;              // pairs of honest kernels that the guards refused on the busy machine
  std::vector<RawPair> equal_pairs{};  // the base against itself
  std::vector<RecordedCandidate> candidates{};
};

struct Recording {
  std::string machine{};  // for people
  std::vector<RecordedTask> tasks{};
};

// The lines of one task, as the file has them.
[[nodiscard]] std::string lines_of(const RecordedTask& task);
// The whole file from the lines of all tasks.
[[nodiscard]] std::string file_of(const std::string& machine, const std::string& lines);
// Refuses what is cut, edited, of other tasks than these, or contradicts the truth that the tasks declare.
[[nodiscard]] Result<Recording> parse_recording(const std::string& text, const std::vector<Task>& tasks);
[[nodiscard]] Result<Recording> read_recording(const std::string& file, const std::vector<Task>& tasks);

// log(time of base / time of candidate) in truth: by construction, else the mean of all that was recorded with the sign
// that the construction gives it.
[[nodiscard]] double true_log_gain(const RecordedCandidate& candidate);
// What a plain run shows, over all recorded ones: the ratio of medians.
[[nodiscard]] double plain_log_gain(const RecordedCandidate& candidate);

}  // namespace flashmoe::arena
