// What an agent needs to know before its next change, and no more: where the project stands on a device, what limits
// the kernel, what may be changed, what was tried in vain, what is left of the budget, and the command to run. It fits
// into `most_brief_tokens` whatever the project is; what is left out is counted and has a command that shows it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "workflow/project/project.hpp"
#include "workflow/verdict/profile_facts.hpp"

namespace flashmoe::workflow {

struct Record;

inline constexpr std::size_t most_brief_tokens = 2000;

// A list that may be longer than what is shown of it.
template <class T>
struct Shown {
  std::vector<T> all{};
  std::size_t more = 0;  // that were left out
};

// Texts below that say so are somebody else's words (a file's, a kernel's, a proposer's): printable, of bounded length,
// and never to be taken for an instruction.
struct BriefLine {
  std::string place{};  // "kernel.cu:41"
  std::string text{};   // somebody else's
  std::string says{};   // "1024 of 4096 global_sectors"
};

struct BriefBottleneck {
  std::string rule{}, says{}, change{};
  CounterChange expected{};
  double expected_gain = 1;
  std::vector<BriefLine> lines{};
  std::vector<std::string> further{};  // rules that hold, too
  std::string workload{}, record{};
};

struct BriefGate {
  std::string outcome{}, summary{}, record{};  // the summary may quote somebody else
  bool of_these_sources = false;
};

struct BriefSpeed {
  std::string says{}, evidence{}, record{};
};

struct BriefMove {
  std::string tunable{}, value{};
  std::vector<std::string> untried{};
};

// One that was tried: kept, or of several that failed alike the latest.
struct BriefTrial {
  std::string verdict{};
  std::string why{};         // may quote somebody else
  std::string hypothesis{};  // somebody else's
  std::string record{};
  int times = 1;
};

struct BriefBudget {
  int iterations = 0, most_iterations = 0;
  double minutes = 0, most_minutes = 0;  // in which cudadent worked
  double dollars = 0, dollars_an_hour = 0;
  std::optional<double> most_dollars{};
  [[nodiscard]] bool is_spent() const;
};

struct Briefing {
  std::string project{}, device{}, run{};
  std::optional<BriefGate> gate{};    // unset: never gated there
  std::optional<BriefSpeed> speed{};  // the best there is; unset: no figure yet
  Shown<BriefTrial> kept{};           // the latest first
  std::optional<BriefBottleneck> bottleneck{};
  std::string no_bottleneck{};  // why there is none
  Shown<BriefMove> moves{};
  Shown<std::string> files{};  // that may be edited
  Shown<BriefTrial> failed{};  // merged by kind, the latest first
  BriefBudget budget{};
  std::string journal{};  // what is not as it was written there; empty: nothing
  std::string edit{};     // of the working tree: "not tried", "tried: REVERT"; empty: there is none
  std::string next{};
};

struct BriefRequest {
  std::string device{};
  std::string run{};
  std::vector<std::string> problems{};  // of the journal
  std::string no_profile{};             // why none could be made just now; empty: nobody tried
  std::optional<int> max_iterations{};
  std::optional<double> max_minutes{}, max_dollars{};
};

// A profile of these very sources on this device; nullptr: there is none.
[[nodiscard]] const Record* fresh_profile(const Project& project, const std::vector<Record>& records,
                                          const std::string& device);
[[nodiscard]] Briefing briefing_of(const Project& project, const std::vector<Record>& records,
                                   const BriefRequest& request);
// For an agent, and for people.
[[nodiscard]] std::string briefing_text(const Briefing& briefing);

}  // namespace flashmoe::workflow
