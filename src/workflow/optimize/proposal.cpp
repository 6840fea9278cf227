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
  std::optional<Step> needs{};
  Values point;
};

// The choices, those that stand nearest to the current one first.
std::vector<double> nearest_first(const Tunable& tunable, double current) {
  std::vector<double> choices = tunable.choices;
  const auto place = [&](double value) {
    return std::find(tunable.choices.begin(), tunable.choices.end(), value) - tunable.choices.begin();
  };
  const auto here = place(current);
  std::stable_sort(choices.begin(), choices.end(),
                   [&](double a, double b) { return std::abs(place(a) - here) < std::abs(place(b) - here); });
  choices.erase(choices.begin());
  return choices;
}

bool is_of(const Tunable& tunable, const std::string& side) {
  return tunable.on.empty() || tunable.on == side;
}

void add_with_needs(const Project& project, const Step& step, const Values& moved, const std::string& side,
                    std::vector<Move>& moves) {
  for (const Tunable& other : project.tunables) {
    if (&other == step.tunable || !is_of(other, side)) continue;
    for (const double choice : nearest_first(other, project.point.at(other.name))) {
      Values point = moved;
      point[other.name] = choice;
      if (broken_rule(project, point) != nullptr) continue;
      moves.push_back({.step = step, .needs = Step{&other, choice}, .point = std::move(point)});
      break;
    }
  }
}

std::vector<Move> moves_of(const Project& project, const std::string& side) {
  std::vector<Move> moves;
  for (const Tunable& tunable : project.tunables) {
    if (!is_of(tunable, side)) continue;
    for (const double choice : tunable.choices) {
      if (choice == project.point.at(tunable.name)) continue;
      Values moved = project.point;
      moved[tunable.name] = choice;
      if (broken_rule(project, moved) == nullptr) {
        moves.push_back({.step = {&tunable, choice}, .point = std::move(moved)});
      } else {
        add_with_needs(project, {&tunable, choice}, moved, side, moves);
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
  const std::vector<Move> moves = moves_of(project, side);
  for (const Advice& one : advice) {
    for (const Move& move : moves) {
      if (move.step.tunable->phase != one.phase) continue;
      Proposal proposal = proposal_of(project, move, "rules", one.bottleneck);
      proposal.rule = one.rule;
      proposal.predicted = one.expected;
      proposals.push_back(std::move(proposal));
    }
  }
  for (const Move& move : moves) proposals.push_back(proposal_of(project, move, "search", "a neighbour"));
  return proposals;
}

}  // namespace flashmoe::workflow
