// The textual forms of cudadent.toml as the JSON Schema states them; the reader parses them by hand, with a column for
// every mistake, and the tests hold the two together.
#pragma once

namespace flashmoe::workflow {

inline constexpr const char* name_pattern = "^[A-Za-z_][A-Za-z0-9_]*$";
inline constexpr const char* callable_pattern = "^[^:]+\\.(c|cc|cpp|cxx|cu|py):[A-Za-z_][A-Za-z0-9_]*$";
inline constexpr const char* tensor_pattern = "^ *(f64|f32|f16|bf16|i32|i64|u8) *\\[.+\\] *$";

}  // namespace flashmoe::workflow
