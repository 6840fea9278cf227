#include "workflow/project/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace flashmoe::workflow {
namespace {

constexpr std::size_t longest_compared = 64;  // the distance costs the product of the lengths

char folded(char c) {
  return static_cast<char>(c == '-' ? '_' : std::tolower(static_cast<unsigned char>(c)));
}

// Levenshtein's, without regard to case and to '-' against '_'.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (folded(a[i - 1]) == folded(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = 0;
  if (name.size() > longest_compared) return best;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    // A third of the name may differ; a short one may differ by one letter if another is right.
    const std::size_t longer = std::max(name.size(), candidate.size());
    if (distance > std::max<std::size_t>(longer / 3, 1) || distance >= longer) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise) {
  const std::string near = nearest(name, known);
  if (near.empty()) return otherwise.rfind("or ", 0) == 0 ? otherwise.substr(3) : otherwise;
  return fmt::format("did you mean '{}'?{}{}", near, otherwise.empty() ? "" : " ", otherwise);
}

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace flashmoe::workflow
