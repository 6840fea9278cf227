// The parts of the corpus: what there is to compute, and the kernels by kind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "workflow/selftest/cheats.hpp"

namespace flashmoe::workflow {

// A kernel project without its kernel.
struct Task {
  std::string name;
  std::string toml;       // of cudadent.toml, what follows the callables
  std::string prelude;    // before every C++ source: types X and Y of the first input and output, and honest()
  std::string reference;  // an entry; in Python, reference() and baseline()
  std::string baseline = "ENTRY { honest(x, y, n, m); return 0; }";
  bool python = false;
};

[[nodiscard]] const std::vector<Task>& all_tasks();
// The same as project_files(cheat), for a task that is not in the corpus.
[[nodiscard]] std::map<std::string, std::string> project_files(const Task& task, const Cheat& cheat);

[[nodiscard]] std::vector<Cheat> timing_cheats();
[[nodiscard]] std::vector<Cheat> memory_cheats();
[[nodiscard]] std::vector<Cheat> result_cheats();
[[nodiscard]] std::vector<Cheat> escape_cheats();
[[nodiscard]] std::vector<Cheat> record_cheats();
[[nodiscard]] std::vector<Cheat> honest_kernels();
[[nodiscard]] std::vector<Cheat> honest_tasks();

}  // namespace flashmoe::workflow
