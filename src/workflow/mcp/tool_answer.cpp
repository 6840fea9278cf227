#include "workflow/mcp/tool_answer.hpp"

#include <fmt/format.h>

#include "support/foreign_text.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/text.hpp"
#include "workflow/mcp/foreign_json.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow::mcp {
namespace {

constexpr std::size_t tokens_for_words = 240;  // the heading, the notice and the links
constexpr std::size_t most_structured_bytes = 3800;
constexpr std::size_t most_text_bytes_each = 400;
constexpr std::size_t most_next_bytes = 1000;
constexpr std::size_t most_whole_bytes = std::size_t{256} << 10;
constexpr std::size_t most_nested_bytes = std::size_t{16} << 20;

// Of what a command says, with `structured` and `is_whole`. Quoting adds marks, and JSON escapes backslashes: what does
// not fit then is shortened further.
ToolAnswer shaped(const Json& said) {
  Json shown = said;
  make_visible(shown, most_text_bytes_each);
  shown["next"] = visible(text_in(said, "next"), most_next_bytes);
  if (shown.contains("left_out") && !shown["left_out"].is_number_unsigned()) shown.erase("left_out");
  ToolAnswer answer;
  for (std::size_t budget = most_structured_bytes; budget >= 500; budget -= 200) {
    answer.structured = shown;
    shorten(answer.structured, budget);
    answer.is_whole = answer.structured == said;
    quote_sentences(answer.structured);
    if (most_tokens_of(one_line(answer.structured)) <= most_text_tokens - tokens_for_words) return answer;
  }
  answer.structured = picked(shown, {"schema_version", "command", "exit_code", "code"});
  return answer;
}

bool is_an_answer(const Json& json) {
  const Json* code = field_in(json, "code");
  return json.is_object() && json.contains("schema_version") && json.contains("exit_code") &&
         json["exit_code"].is_number_integer() && code != nullptr && (code->is_null() || code->is_string()) &&
         json.contains("next") && json["next"].is_string();
}

std::string heading(const Json& structured) {
  constexpr std::size_t longest_word = 60;
  std::string line = "cudadent " + visible(text_in(structured, "command"), longest_word);
  if (structured.contains("job")) return line + ": not done yet, see job";
  for (const char* key : {"outcome", "verdict"}) {
    if (const std::string word = text_in(structured, key); !word.empty()) {
      line += fmt::format(", {} {}", key, visible(word, longest_word));
    }
  }
  if (const std::string code = text_in(structured, "code"); !code.empty()) {
    line += ", code " + visible(code, longest_word);
  }
  return line + fmt::format(", exit code {}", integer_in(structured, "exit_code"));
}

}  // namespace

ToolAnswer error_answer(const Tool& tool, const Diagnostic& problem) {
  const ProblemCode& row = row_of(problem.code);
  const Answer answer{
      .command = tool.name, .exit_code = exit_code(problem), .code = row.code, .next = row.next, .is_short = true};
  const std::string whole = error_json(answer, problem);
  ToolAnswer made = shaped(parse_json(whole));
  made.whole = whole;
  made.is_error = true;
  return made;
}

ToolAnswer answer_of(const Tool& tool, const Finished& finished) {
  const Json json = finished.out.size() <= most_nested_bytes ? bounded_json(finished.out) : Json();
  if (!is_an_answer(json)) {
    const std::string last = last_line(finished.err);
    return error_answer(tool, {.message = fmt::format("cudadent {} ended without an answer: {}{}", tool.name,
                                                      finished.describe(), last.empty() ? "" : "; it wrote: " + last),
                               .fix = "read the job's log",
                               .code = codes::could_not_run});
  }
  ToolAnswer answer = shaped(json);
  const int code = integer_in(json, "exit_code");
  answer.is_error = code == static_cast<int>(ExitCode::usage) || code == static_cast<int>(ExitCode::could_not_run);
  answer.record = visible(text_in(json, "id"), 100);
  if (finished.out.size() > most_whole_bytes) {
    answer.whole = indented(answer.structured);
  } else {
    Json whole = json;
    make_visible(whole, most_whole_bytes);
    answer.whole = indented(whole);
  }
  return answer;
}

ToolAnswer job_answer(const Tool& tool, const JobState& job) {
  Json told = {{"id", job.id},
               {"state", job.is_queued ? "queued" : "running"},
               {"runs", visible(job.runs, most_text_bytes_each)},
               {"since", job.since},
               {"seconds", job.seconds}};
  if (!job.says.empty()) told["says"] = in_marks(job.says, 200);
  told["wait"] = {{"name", tool.name}, {"arguments", {{"job", job.id}}}};
  ToolAnswer answer;
  answer.structured = {
      {"schema_version", answer_schema_version},
      {"command", tool.name},
      {"job", std::move(told)},
      {"next", fmt::format(R"(call {} with {{"job": "{}"}} to wait, and "stop": true to end it)", tool.name, job.id)}};
  return answer;
}

Json call_result(const ToolAnswer& answer, const std::vector<Link>& links) {
  Json structured = answer.structured;
  structured["quoted"] = foreign_text_notice;
  std::string text = heading(structured) + "\n" + one_line(answer.structured) + "\n" + foreign_text_notice + "\n";
  Json content = Json::array({{{"type", "text"}, {"text", ""}}});
  for (const Link& link : links) {
    structured["resources"].push_back(link.uri);
    // Deep directories make long names; the link itself is there in any case.
    const std::string more = "More: " + link.uri + "\n";
    if (most_tokens_of(text + more) <= most_text_tokens) text += more;
    content.push_back({{"type", "resource_link"},
                       {"uri", link.uri},
                       {"name", link.name},
                       {"description", link.about},
                       {"mimeType", link.type}});
  }
  content[0]["text"] = text;
  return {{"content", std::move(content)}, {"structuredContent", std::move(structured)}, {"isError", answer.is_error}};
}

}  // namespace flashmoe::workflow::mcp
