#include "workflow/project/mistakes.hpp"

#include <algorithm>
#include <utility>

namespace flashmoe::workflow {
namespace {

// "cuda.instances[0]" is above "cuda.instances[0].grid", and not above "cuda.instances[01]".
bool is_above(std::string_view upper, std::string_view lower) {
  if (!lower.starts_with(upper)) return false;
  return lower.size() == upper.size() || lower[upper.size()] == '.' || lower[upper.size()] == '[';
}

}  // namespace

bool Mistakes::touch(std::string_view key) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Diagnostic& told) { return is_above(told.key, key) || is_above(key, told.key); });
}

void Mistakes::add(Diagnostic problem) {
  if (!touch(problem.key)) all_.push_back(std::move(problem));
}

Diagnostic Mistakes::as_one() const {
  std::vector<Diagnostic> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  Diagnostic first = std::move(sorted.front());
  first.more.assign(std::make_move_iterator(sorted.begin() + 1), std::make_move_iterator(sorted.end()));
  return first;
}

}  // namespace flashmoe::workflow
