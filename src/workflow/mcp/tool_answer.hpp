// What a client is answered: the command's own short answer with the words of others quoted in it, as structured
// content and as a text of few tokens; the rest is named as resources.
#pragma once

#include <string>
#include <vector>

#include "support/json.hpp"
#include "support/process.hpp"
#include "support/result.hpp"
#include "workflow/mcp/tool_table.hpp"

namespace flashmoe::workflow::mcp {

// Of the text that a model reads. A token is taken for three bytes, which is less than tokenizers make of JSON.
inline constexpr std::size_t most_text_tokens = 1500;

struct ToolAnswer {
  Json structured = Json::object();
  bool is_whole = true;   // nothing of what the command said was left out
  bool is_error = false;  // of the call; a kernel that does not hold is an answer
  std::string record{};   // id of what was recorded; empty: nothing
  std::string whole{};    // what the command printed, made visible
};

// What the process of a tool came to.
[[nodiscard]] ToolAnswer answer_of(const Tool& tool, const Finished& finished);
[[nodiscard]] ToolAnswer error_answer(const Tool& tool, const Diagnostic& problem);

struct JobState {
  std::string id{};
  bool is_queued = false;
  std::string runs{};   // the command line
  std::string since{};  // UTC
  double seconds = 0;
  std::string says{};  // the last line of its progress
};
[[nodiscard]] ToolAnswer job_answer(const Tool& tool, const JobState& job);

struct Link {
  std::string uri;
  std::string name;
  const char* about;
  const char* type;  // "application/json"
};

// The result of tools/call: text, links, structured content.
[[nodiscard]] Json call_result(const ToolAnswer& answer, const std::vector<Link>& links);

}  // namespace flashmoe::workflow::mcp
