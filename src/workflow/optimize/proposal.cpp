#include "workflow/optimize/proposal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "workflow/project/point.hpp"

namespace flashmoe::workflow {
namespace {

struct Step {
  const Tunable* tunable;
  double to;
};

// Of one tunable, with the nearest value of another one where the rules demand it.
struct Move {
  Step step;
  std::ptrdiff_t distance;  // places between the values among the tunable's choices
  std::optional<Step> needs{};
  Values point;
};

std::ptrdiff_t distance(const Tunable& tunable, double a, double b) {
  const auto place = [&](double value) { return std::ranges::find(tunable.choices, value) - tunable.choices.begin(); };
  return std::abs(place(a) - place(b));
}

// The choices, those that stand nearest to the current one first.
std::vector<double> nearest_first(const Tunable& tunable, double current) {
  std::vector<double> choices = tunable.choices;
  std::ranges::stable_sort(choices, {}, [&](double choice) { return distance(tunable, choice, current); });
  choices.erase(choices.begin());
  return choices;
}

bool is_of(const Tunable& tunable, const std::string& side) {
  return tunable.on.empty() || tunable.on == side;
}

void add_with_needs(const Project& project, const Move& alone, const std::string& side, std::vector<Move>& moves) {
  for (const Tunable& other : project.tunables) {
    if (&other == alone.step.tunable || !is_of(other, side)) continue;
    for (const double choice : nearest_first(other, project.point.at(other.name))) {
      Move move = alone;
      move.needs = Step{&other, choice};
      move.point[other.name] = choice;
      if (broken_rule(project, move.point) != nullptr) continue;
      moves.push_back(std::move(move));
      break;
    }
  }
}

std::vector<Move> moves_of(const Project& project, const std::string& side) {
  std::vector<Move> moves;
  for (const Tunable& tunable : project.tunables) {
    if (!is_of(tunable, side)) continue;
    const double current = project.point.at(tunable.name);
    for (const double choice : tunable.choices) {
      if (choice == current) continue;
      Move move{.step = {&tunable, choice}, .distance = distance(tunable, choice, current), .point = project.point};
      move.point[tunable.name] = choice;
      if (broken_rule(project, move.point) == nullptr) {
        moves.push_back(std::move(move));
      } else {
        add_with_needs(project, move, side, moves);
      }
    }
  }
  return moves;
}

std::string step_text(const Project& project, const Step& step) {
  const Tunable& tunable = *step.tunable;
  return fmt::format("{} {} -> {}", tunable.name, value_text(tunable, project.point.at(tunable.name)),
                     value_text(tunable, step.to));
}

Proposal proposal_of(const Project& project, const Move& move, const std::string& proposer, const std::string& why) {
  const std::string needs = move.needs ? fmt::format(" (it needs {})", step_text(project, *move.needs)) : "";
  return {.proposer = proposer,
          .hypothesis = fmt::format("{}{}: {}", step_text(project, move.step), needs, why),
          .phase = move.step.tunable->phase,
          .files = {{point_file_name, point_text(project, move.point)}}};
}

}  // namespace

std::vector<Proposal> propose_moves(const Project& project, const std::vector<Advice>& advice,
                                    const std::string& side) {
  std::vector<Proposal> proposals;
  std::vector<Move> moves = moves_of(project, side);
  for (const Advice& one : advice) {
    for (const Move& move : moves) {
      if (move.step.tunable->phase != one.phase) continue;
      Proposal proposal = proposal_of(project, move, "rules", one.bottleneck);
      proposal.rule = one.rule;
      proposal.predicted = one.expected;
      proposals.push_back(std::move(proposal));
    }
  }
  // A step of every tunable before a second one of any: which of them matters is found out first.
  std::ranges::stable_sort(moves, {}, &Move::distance);
  for (const Move& move : moves) proposals.push_back(proposal_of(project, move, "search", "a neighbour"));
  return proposals;
}

}  // namespace flashmoe::workflow
