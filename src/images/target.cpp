#include "images/target.hpp"

#include <algorithm>
#include <charconv>

namespace flashmoe {

bool target_runs_on(std::string_view target, int sm) {
  if (!target.starts_with("sm_")) return true;
  int asked = 0;
  std::from_chars(target.data() + 3, target.data() + target.size(), asked);
  if (target.ends_with('a')) return asked == sm;
  if (target.ends_with('f')) return asked / 10 == sm / 10 && asked <= sm;
  return asked <= sm;
}

std::string_view target_of(std::string_view ptx) {
  constexpr std::string_view directive = "\n.target";
  const auto at = ptx.find(directive);
  if (at == std::string_view::npos) return {};
  ptx.remove_prefix(at + directive.size());
  ptx.remove_prefix(std::min(ptx.find_first_not_of(" \t"), ptx.size()));
  return ptx.substr(0, ptx.find_first_of(" \t\r\n,"));
}

}  // namespace flashmoe
