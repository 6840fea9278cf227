// Names of what the server holds beside its answers.
#pragma once

namespace flashmoe::workflow::mcp {

inline constexpr const char* jobs_uri = "cudadent://jobs";  // and "/ID/answer", "/ID/log" behind it
inline constexpr const char* records_uri = "cudadent://records/";
inline constexpr const char* record_template = "cudadent://records/{id}{?project}";
inline constexpr const char* schema_uri = "cudadent://schema/answers";

// For how long a client may keep a list that never changes.
inline constexpr int list_seconds = 3600;

}  // namespace flashmoe::workflow::mcp
