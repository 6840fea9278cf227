// A replay for people and for programs.
#pragma once

#include <string>

#include "replay.hpp"

namespace flashmoe::arena {

// Markdown, as docs/arena.md has it between its marks.
[[nodiscard]] std::string tables_of(const Recording& recording, const Replay& recorded, const Replay& simulated);
[[nodiscard]] std::string json_of(const Recording& recording, const Replay& recorded, const Replay& simulated);

// `page` with `tables` between its marks; a page without marks is refused.
[[nodiscard]] Result<std::string> page_with(const std::string& page, const std::string& tables);

}  // namespace flashmoe::arena
