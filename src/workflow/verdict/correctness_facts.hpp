// What the correctness gate compared, and what it knows about a wrong result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct CaseFacts {
  std::string name{};
  std::map<std::string, double> values{};
  double max_diff = 0;
  bool operator==(const CaseFacts&) const = default;
};

struct WrongFacts {
  std::string case_name{};
  std::map<std::string, double> values{};
  std::uint64_t input_seed = 0;
  std::string tensor{};
  std::vector<std::int64_t> position{};  // of the first wrong element
  double expected = 0, got = 0;          // there
  double max_diff = 0;
  std::int64_t wrong = 0, unwritten = 0, count = 0;  // elements
  std::string schedule{};                            // of a virtual GPU; empty: the gate's own
  bool operator==(const WrongFacts&) const = default;
};

// Why a result is wrong, as far as it can be told.
struct Diagnosis {
  std::string kind{};   // "hypothesis", "pattern", "stage", "unknown"; empty: nothing was found
  std::string name{};   // the variant, the pattern or the stage
  std::string cause{};  // one sentence
  std::string fix{};
  bool operator==(const Diagnosis&) const = default;
};

struct CorrectnessFacts {
  static constexpr const char* gate = "correctness";
  std::uint64_t seed = 0;
  std::vector<CaseFacts> cases{};  // that were right
  std::string failure{};           // "wrong", "crashed", "hung", ...; empty: none
  std::optional<WrongFacts> wrong{};
  std::optional<Diagnosis> diagnosis{};
  std::vector<std::string> schedules{};  // of a virtual GPU that the smaller cases were right under, too
  std::vector<std::string> virtual_faults{};
  std::vector<std::string> virtual_findings{};  // as the virtual GPU reports them: one JSON object each
  bool operator==(const CorrectnessFacts&) const = default;
};

}  // namespace flashmoe::workflow
