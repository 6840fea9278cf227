// What the arena's contestants are tried on: tasks with candidates, as data (families/*.toml, shared.toml). The truth
// about a candidate is part of the data; no rule has a say in it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::arena {

enum class Truth {
  equal,   // the same machine code as the base
  faster,  // right, and does less
  slower,  // right, and does more
  breaks,  // right where it is timed, wrong at shapes or values of the declared domain
  wrong,   // wrong where it is timed, too, by more than the type's rounding
  cheat    // does not do the work it is timed for
};
[[nodiscard]] const char* name_of(Truth truth);
[[nodiscard]] std::optional<Truth> truth_of(const std::string& name);
[[nodiscard]] bool is_honest(Truth truth);  // right everywhere: only its speed is the question

struct Candidate {
  std::string name{}, what{}, source{};
  Truth truth = Truth::equal;
  std::optional<double> gain{};               // ratio - 1, where it is known by construction
  std::optional<workflow::Values> witness{};  // a shape at which it is wrong
  std::string witness_values{};               // and what is in its inputs there; empty: ordinary values
};

struct Task {
  std::string name{}, family{};
  workflow::Values tiny{}, target{};
  std::vector<workflow::Values> sweep{};  // further shapes that a sweep would look at
  std::string project{}, prelude{}, reference{}, base{};
  std::vector<Candidate> candidates{};
};

// All tasks below `directory` (bench/arena), in the order of files and entries.
[[nodiscard]] Result<std::vector<Task>> read_tasks(const std::string& directory);

// The files of a project that has `source` as its kernel.
[[nodiscard]] std::map<std::string, std::string> files_of(const Task& task, const std::string& source);
// Of all that a recording of the candidate depends on; of the base where there is none.
[[nodiscard]] std::string data_hash(const Task& task, const Candidate* candidate);

}  // namespace flashmoe::arena
