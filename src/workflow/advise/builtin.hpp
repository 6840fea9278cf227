// rules.toml, host_rules.toml and patterns.toml of this folder, as the build put them into the program.
#pragma once

namespace flashmoe::workflow {

[[nodiscard]] const char* builtin_rules_text();
[[nodiscard]] const char* builtin_host_rules_text();
[[nodiscard]] const char* builtin_patterns_text();

}  // namespace flashmoe::workflow
