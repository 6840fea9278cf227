// Kernels that pretend. Each is built and sent through the real gates, and must be refused where it should be; honest
// kernels, awkward ones among them, must pass the same way, or the refusals prove nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/journal/selftest_record.hpp"

namespace flashmoe::workflow {

struct Cheat {
  std::string name;
  std::string what;                            // what it does, as one clause
  std::string source;                          // the body of the entry, and what stands before it
  std::string expected_gate{};                 // "correctness", "performance"; empty: honest, must pass
  std::string task = "map";                    // what it is asked to compute (tasks.cpp)
  bool in_gate = false;                        // run by every gate, too; the others nightly and by `selftest`
  int threads = 1;                             // that it may use
  std::vector<std::string> flags{};            // further ones of the compiler
  std::map<std::string, std::string> files{};  // that lie in the project when it runs
  std::uint64_t seed = 0;                      // of the timing, as --seed would give it; 0: a new one
};

[[nodiscard]] const std::vector<Cheat>& all_cheats();
// A project that asks for the cheat's task, with this kernel in it: its files by name.
[[nodiscard]] Result<std::map<std::string, std::string>> project_files(const Cheat& cheat);
[[nodiscard]] std::vector<std::string> names_in_gate();

// All of them, or those named. An entry that cannot be built or run at all is not as expected.
[[nodiscard]] std::vector<CheatOutcome> run_cheats(Progress& progress, const std::vector<std::string>& only = {});

[[nodiscard]] CorpusCounts counts_of(const std::vector<CheatOutcome>& outcomes);

}  // namespace flashmoe::workflow
