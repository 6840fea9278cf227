// rules.toml of this folder, as the build put it into the program.
#pragma once

namespace flashmoe::workflow {

[[nodiscard]] const char* builtin_rules_text();

}  // namespace flashmoe::workflow
