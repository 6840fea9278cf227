#include "workflow/compile/compile_error.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// gcc's -fdiagnostics-format=json: an array of {kind, message, locations: [{caret: {file, line, column}}]}.
bool take_from_json(const std::string& text, const std::string& directory, Diagnostic& why) {
  const auto begin = text.find('[');
  const auto end = text.rfind(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return false;
  const Json all = parse_json(text.substr(begin, end - begin + 1));
  if (!all.is_array()) return false;
  for (const Json& one : all) {
    if (!one.is_object() || !one.contains("kind") || !one.contains("message")) continue;
    if (one["kind"] != "error" && one["kind"] != "fatal error") continue;
    why.message = one["message"].is_string() ? one["message"].get<std::string>() : "";
    const auto caret = one.find("locations");
    if (caret != one.end() && caret->is_array() && !caret->empty() && caret->front().is_object() &&
        caret->front().contains("caret")) {
      const Json& at = caret->front()["caret"];
      why.file = (std::filesystem::path(directory) / text_in(at, "file")).string();
      why.line = integer_in(at, "line");
      why.column = integer_in(at, "column");
    }
    return !why.message.empty();
  }
  return false;
}

}  // namespace

std::string shortened(const std::string& text, std::size_t lines) {
  std::istringstream stream(text);
  std::string kept;
  std::size_t count = 0;
  for (std::string line; std::getline(stream, line); ++count)
    if (count < lines) kept += line + "\n";
  if (count > lines) kept += fmt::format("({} more lines)\n", count - lines);
  if (!kept.empty()) kept.pop_back();
  return kept;
}

Diagnostic explain_compile_error(const Command& command, const Finished& ran, const std::string& source,
                                 const std::string& directory) {
  const std::string compiler = std::filesystem::path(command.argv.front()).filename().string();
  Diagnostic why{.message = fmt::format("{} failed: {}", compiler, ran.describe()),
                 .file = (std::filesystem::path(directory) / source).string(),
                 .code = ran.interrupted ? codes::interrupted : codes::build_compile_failed};
  if (ran.interrupted) return why;
  if (ran.timed_out) {
    why.fix = "make the source compile faster (fewer instances per file), or split it";
    return why;
  }
  why.fix = "correct the source at that line";
  Command again = command;
  again.argv.emplace_back("-fdiagnostics-format=json");
  const auto structured = run_process(again);
  Diagnostic located = why;
  if (structured && take_from_json(structured->err, directory, located)) {
    located.message = "compile error: " + located.message;
    return located;
  }
  why.message += "\n" + shortened(ran.err, 20);
  return why;
}

}  // namespace flashmoe::workflow
