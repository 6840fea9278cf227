#include "workflow/optimize/proposal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "workflow/project/point.hpp"

namespace flashmoe::workflow {
namespace {

struct Move {
  const Tunable* tunable;
  double from, to;
  Values point;
};

std::vector<Move> moves_of(const Project& project) {
  std::vector<Move> moves;
  for (const Values& point : single_moves(project, project.point)) {
    for (const Tunable& tunable : project.tunables) {
      const double from = project.point.at(tunable.name), to = point.at(tunable.name);
      if (from != to) moves.push_back({&tunable, from, to, point});
    }
  }
  return moves;
}

Proposal proposal_of(const Project& project, const Move& move, const std::string& proposer, const std::string& why) {
  return {.proposer = proposer,
          .hypothesis = fmt::format("{} {} -> {}: {}", move.tunable->name, value_text(*move.tunable, move.from),
                                    value_text(*move.tunable, move.to), why),
          .phase = move.tunable->phase,
          .files = {{point_file_name, point_text(project, move.point)}}};
}

}  // namespace

std::vector<Proposal> propose_moves(const LoopState& state) {
  std::vector<Proposal> proposals;
  std::vector<Move> moves = moves_of(state.project);  // those that nobody has proposed yet
  for (const Advice& advice : state.advice) {
    const auto asked_for = std::stable_partition(moves.begin(), moves.end(),
                                                 [&](const Move& move) { return move.tunable->phase != advice.phase; });
    for (auto move = asked_for; move != moves.end(); ++move) {
      Proposal proposal = proposal_of(state.project, *move, "rules", advice.bottleneck);
      proposal.rule = advice.rule;
      proposal.predicted = advice.expected;
      proposals.push_back(std::move(proposal));
    }
    moves.erase(asked_for, moves.end());
  }
  for (const Move& move : moves) proposals.push_back(proposal_of(state.project, move, "search", "a neighbour"));
  return proposals;
}

Result<Done> check_allowed(const Project& project, const FileChanges& files) {
  namespace fs = std::filesystem;
  const auto refused = [](const std::string& path, const std::string& why) {
    return Diagnostic{.message = fmt::format("a proposal may not change '{}': {}", path, why),
                      .fix = "change the kernel's own sources, or point.toml"};
  };
  for (const auto& [path, content] : files) {
    const fs::path normal = fs::path(path).lexically_normal();
    if (path.empty() || normal.is_absolute() || *normal.begin() == "..")
      return refused(path, "it is outside the project");
    for (const fs::path& part : normal) {
      if (part == ".git" || part == ".cudadent") return refused(path, "it is the tool's own");
      if (part == ".gitattributes" || part == ".gitmodules") return refused(path, "git would act on it");
    }
    const std::string name = normal.string();
    if (name == "cudadent.toml" || name == project_rules_file) return refused(path, "it says what is judged, and how");
    for (const Callable* judge : {&project.reference, &project.baseline}) {
      const bool is_judge = name == judge->source ||
                            std::find(judge->sources.begin(), judge->sources.end(), name) != judge->sources.end();
      if (is_judge) return refused(path, "it judges");
    }
  }
  return Done{};
}

}  // namespace flashmoe::workflow
