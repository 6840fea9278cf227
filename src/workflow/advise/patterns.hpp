// What earlier trials taught: how often a change that a rule asked for was worth keeping, and by how much, for each
// rule and each move. Learned from records, kept in a file of its own, which can be handed on. Without that file
// nothing here has a say: a loop takes the same way again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/statistics/binomial.hpp"

namespace flashmoe::workflow {

struct Advice;
struct Project;
struct Record;

// One change that was tried in a loop.
struct PatternTrial {
  std::string id{};        // of its record
  std::string evidence{};  // "predicted", "measured", "virtual": never counted together
  std::string rule{};      // of the advice it followed; empty: a neighbour that no rule asked for
  std::string move{};      // "splits 1 -> 4"
  bool kept = false;
  bool lasted = false;  // and its value was still there when the loop ended
  double gain = 1;      // factor on the speed, of one that was kept; 1: not known
  bool operator==(const PatternTrial&) const = default;
};

// Of one rule, or of one move under it.
struct PatternCount {
  std::string evidence{}, rule{}, move{};  // no move: all of the rule
  int trials = 0, kept = 0, lasted = 0;
  double mean_gain = 1;  // geometric, of those kept
  RateInterval hits{};   // of kept among tried, exact, 95 %
};

// A pattern that is shipped: practice, and what it moves.
struct Practice {
  std::string name{}, says{}, moves{}, rule{};
};
[[nodiscard]] std::vector<Practice> practices();

// From loops' records, in their order; trials of persons and agents say no move and are left out.
[[nodiscard]] std::vector<PatternTrial> trials_in(const std::vector<Record>& records);
// Rules first, each with its moves behind it; the most tried first.
[[nodiscard]] std::vector<PatternCount> counts_of(const std::vector<PatternTrial>& trials);

// The file: its trials and the SHA-256 of them.
[[nodiscard]] std::string patterns_text(const std::vector<PatternTrial>& trials);
[[nodiscard]] Result<std::vector<PatternTrial>> read_patterns(const std::string& text, const std::string& file);
// Every trial once. A trial of both that is not the same in both is a conflict, which is named, and nothing is merged.
[[nodiscard]] Result<std::vector<PatternTrial>> merged(const std::vector<PatternTrial>& a,
                                                       const std::vector<PatternTrial>& b);

// Of a project: .cudadent/patterns.json; none where there is no such file.
[[nodiscard]] std::string patterns_file(const Project& project);
[[nodiscard]] Result<std::vector<PatternTrial>> patterns_of(const Project& project);

// How likely a change is worth it, by what was learned on evidence of one kind.
class PatternPrior {
 public:
  PatternPrior() = default;
  PatternPrior(const std::vector<PatternTrial>& trials, const std::string& evidence);
  [[nodiscard]] bool knows_nothing() const { return counts_.empty(); }
  // That a change of this rule is kept: (kept + 1) / (tried + 2).
  [[nodiscard]] double chance(const std::string& rule) const;
  // That this move is kept and its value lasts: as if two earlier trials had gone as the rule's have.
  [[nodiscard]] double chance(const std::string& rule, const std::string& move) const;

 private:
  [[nodiscard]] const PatternCount* find(const std::string& rule, const std::string& move) const;
  std::vector<PatternCount> counts_{};
};

// The largest first of (gain - 1) times the chance that was learned for its rule; as it was where nothing was learned.
void rank_by_patterns(std::vector<Advice>& advice, const PatternPrior& prior);

// "splits 1 -> 4 (it needs combine 0 -> 1): the grid is too small" -> "splits 1 -> 4"; empty: no move of a tunable.
[[nodiscard]] std::string move_in(const std::string& hypothesis);

}  // namespace flashmoe::workflow
