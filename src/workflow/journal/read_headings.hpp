// Lines as headings, all of them: what a long journal takes, on as many threads as there are cores.
#pragma once

#include <vector>

#include "workflow/journal/heading.hpp"
#include "workflow/journal/line_file.hpp"

namespace flashmoe::workflow {

struct HeadingsRead {
  std::vector<Heading> headings{};
  int damaged = 0;  // lines that do not read
};
[[nodiscard]] HeadingsRead read_headings(const FileEnd& end);

}  // namespace flashmoe::workflow
