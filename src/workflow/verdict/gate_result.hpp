// What every gate answers, and what records keep. A gate that could not run has failed, and says what to do.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "workflow/verdict/build_facts.hpp"
#include "workflow/verdict/correctness_facts.hpp"
#include "workflow/verdict/environment_facts.hpp"
#include "workflow/verdict/performance_facts.hpp"
#include "workflow/verdict/profile_facts.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// Figures, samples, hashes: what a gate knows beyond its verdict. Each alternative says whose facts it holds (`gate`),
// and how it is written is in journal/gate_json.cpp.
using AnyGateFacts =
    std::variant<std::monostate, EnvironmentFacts, BuildFacts, CorrectnessFacts, PerformanceFacts, ProfileFacts>;

// Copied and destroyed in gate_result.cpp alone: in every file that holds a result it would be most of the compile.
struct GateFacts : AnyGateFacts {
  using AnyGateFacts::AnyGateFacts;
  GateFacts();
  GateFacts(const GateFacts& other);
  GateFacts(GateFacts&& other) noexcept;
  GateFacts& operator=(const GateFacts& other);
  GateFacts& operator=(GateFacts&& other) noexcept;
  ~GateFacts();
};

struct GateResult {
  std::string gate{};  // its name in the table of gates
  Outcome outcome = Outcome::could_not_run;
  std::string summary{};  // one line
  std::string code{};     // why it does not hold (codes.def); empty when it does
  std::vector<Finding> findings{};
  GateFacts facts{};
  bool not_run = false;   // not asked for, or a gate before it does not hold
  std::string stopped{};  // "interrupted", "preempted", "machine": no verdict on the kernel
  double seconds = 0;

  // The facts of this gate, made when there are none yet.
  template <class Facts>
  [[nodiscard]] Facts& facts_as() {
    if (!std::holds_alternative<Facts>(facts)) facts = Facts{};
    return std::get<Facts>(facts);
  }
  bool operator==(const GateResult&) const = default;
};

}  // namespace flashmoe::workflow
