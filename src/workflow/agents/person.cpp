#include "workflow/agents/person.hpp"

#include <fmt/format.h>

#include <charconv>
#include <istream>
#include <ostream>

#include "support/text.hpp"
#include "support/whole_file.hpp"
#include "workflow/compare/git.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t most_shown = 12;

// What is edited in the working tree, by paths in the project.
Result<Proposal> edit_of(const Project& project) {
  const auto snapshot = take_snapshot(project);
  if (!snapshot) return snapshot.error();
  const auto prefix = run_git(project.directory, {"rev-parse", "--show-prefix"});
  if (!prefix) return prefix.error();
  Proposal proposal{.proposer = "person"};
  for (const std::string& file : snapshot->files) {
    const std::string name =
        file.starts_with(*prefix) ? file.substr(prefix->size()) : "../" + file;  // outside: refused with its name
    proposal.files[name] = whole_file(project.directory + "/" + name);
  }
  return proposal;
}

std::string ask(std::istream& in, std::ostream& out, const std::string& question) {
  out << question << std::flush;
  std::string line;
  return std::getline(in, line) ? trimmed(line) : "q";
}

}  // namespace

Propose propose_by_person(const Project& project, std::istream& in, std::ostream& out) {
  return [project, &in, &out](const LoopState& state) -> Result<std::optional<Proposal>> {
    out << '\n'
        << (state.advice.empty() ? "No counters here: a bottleneck is not named.\n" : advice_text(state.advice));
    std::vector<Proposal> moves = propose_moves(state.project, state.advice, state.side);
    if (moves.size() > most_shown) moves.resize(most_shown);
    for (std::size_t i = 0; i < moves.size(); ++i) out << fmt::format("  {:>2}  {}\n", i + 1, moves[i].hypothesis);
    for (;;) {
      const std::string answer =
          ask(in, out, moves.empty() ? "e: try my edit, q: stop > " : "a number, e: try my edit, q: stop > ");
      if (answer == "q") return std::optional<Proposal>{};
      if (answer == "e") {
        auto edit = edit_of(project);
        if (!edit) {
          out << edit.error().to_string() << '\n';
          continue;
        }
        edit->hypothesis = ask(in, out, "why should it help? > ");
        return std::optional(std::move(*edit));
      }
      std::size_t chosen = 0;
      std::from_chars(answer.data(), answer.data() + answer.size(), chosen);
      if (chosen >= 1 && chosen <= moves.size()) {
        moves[chosen - 1].proposer = "person";
        return std::optional(std::move(moves[chosen - 1]));
      }
    }
  };
}

}  // namespace flashmoe::workflow
