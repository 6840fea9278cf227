// The words behind `cudadent journal`.
#pragma once

#include "command.hpp"

namespace flashmoe::tools {

[[nodiscard]] Command journal_merge_part();
[[nodiscard]] Command journal_export_part();
[[nodiscard]] Command journal_import_part();

}  // namespace flashmoe::tools
