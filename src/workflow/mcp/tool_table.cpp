#include "workflow/mcp/tool_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>

#include "support/foreign_text.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow::mcp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_text_bytes = 2000;
constexpr double most_seed = 9007199254740991;  // the largest integer that every JSON reader keeps
constexpr const char* job_about = "Wait for this job instead of starting one: the id of an earlier answer";
constexpr const char* stop_about = "With job: end it";

ToolArgument project_argument() {
  return {"project", nullptr, ArgumentKind::directory, "Directory with cudadent.toml, below the server's root [.]"};
}
ToolArgument device_argument() {
  return {"device", "--device", ArgumentKind::text, "cpu, virtual:<gpu> such as virtual:l4, or cuda:<n>"};
}
ToolArgument workload_argument() {
  return {"workload", "--workload", ArgumentKind::text, "A workload of the project [its target]"};
}
ToolArgument seed_argument() {
  return {"seed", "--seed", ArgumentKind::integer, "Seed of the inputs [a new one]", 0, most_seed};
}
ToolArgument limit_argument() {
  return {"limit_seconds", "--limit", ArgumentKind::number, "Most seconds of timing", 1, 1e5};
}
ToolArgument phase_argument() {
  return {"phase", "--phase", ArgumentKind::text, "Takes this phase's least gain from the project"};
}
ToolArgument min_gain_argument() {
  return {"min_gain", "--min-gain", ArgumentKind::number, "Least gain worth keeping, 0.02 for 2 %", 0, 100};
}
ToolArgument run_argument() {
  return {"run", "--run", ArgumentKind::text, "Name of the run that the record belongs to [the UTC day]"};
}

std::vector<Tool> make_tools() {
  using enum ArgumentKind;
  std::vector<Tool> tools;
  tools.push_back({.name = "brief",
                   .title = "What to know before the next change",
                   .about = "Where it stands, the bottleneck with its source lines, what may be changed, what failed "
                            "and why, budget left. Begin here.",
                   .measures = true,
                   .writes = true,
                   .asks_for_all = true,
                   .arguments = {project_argument(),
                                 device_argument(),
                                 run_argument(),
                                 {"iterations", "--iterations", integer, "Most changes to try", 1, 1e6},
                                 {"minutes", "--minutes", number, "Most minutes of cudadent's work", 0.1, 1e5},
                                 {"dollars", "--dollars", number, "Most dollars, by the prices of [cost]", 0, 1e6}}});
  tools.push_back({.name = "status",
                   .title = "Where the project stands",
                   .about = "The last verdict on each device and the command that goes on from there. Runs nothing.",
                   .measures = false,
                   .writes = false,
                   .asks_for_all = true,
                   .arguments = {project_argument()}});
  tools.push_back({.name = "gate",
                   .title = "Which gate holds",
                   .about = "Environment, build, correctness, performance, profile, in this order, until one does not "
                            "hold. On virtual:<gpu> every access is checked and nothing is timed.",
                   .measures = true,
                   .writes = true,
                   .asks_for_all = false,
                   .arguments = {project_argument(),
                                 device_argument(),
                                 {"only", "--only", text, "One gate; what it needs is built first", 0, 0, gate_names()},
                                 {"until", "--until", text, "The last gate to run", 0, 0, gate_names()},
                                 seed_argument(),
                                 {"limit_seconds", "--limit", number, "Most seconds of timing a workload", 0.5, 1e5}}});
  tools.push_back({.name = "profile",
                   .title = "Why it is not faster",
                   .about = "Counters of every launch and the bottleneck that they name.",
                   .measures = true,
                   .writes = true,
                   .asks_for_all = false,
                   .arguments = {project_argument(), device_argument(), workload_argument(), seed_argument()}});
  tools.push_back({.name = "advise",
                   .title = "The one bottleneck, and what to change",
                   .about = "Runs the kernel on a virtual GPU and says what to change first.",
                   .measures = true,
                   .writes = false,
                   .asks_for_all = true,
                   .arguments = {project_argument(), device_argument(), workload_argument(), seed_argument()}});
  tools.push_back({.name = "try",
                   .title = "Is the edit worth keeping",
                   .about = "Takes the difference between the working tree and HEAD as one change: builds it aside, "
                            "checks it by HEAD's reference, compares it with HEAD. KEEP, REVERT, INCONCLUSIVE; on a "
                            "virtual GPU what is predicted and which counters moved. Changes no file of yours.",
                   .measures = true,
                   .writes = true,
                   .asks_for_all = false,
                   .arguments = {project_argument(),
                                 {"because", "--because", text, "Why the edit should help, for the record"},
                                 device_argument(),
                                 workload_argument(),
                                 phase_argument(),
                                 min_gain_argument(),
                                 run_argument(),
                                 seed_argument(),
                                 limit_argument()}});
  tools.push_back({.name = "compare",
                   .title = "Is a candidate faster than the base",
                   .about = "Two versions against each other, by enough and for sure, or by counters where there is no "
                            "clock.",
                   .measures = true,
                   .writes = true,
                   .asks_for_all = false,
                   .arguments = {project_argument(),
                                 {"base", "--base", version, "Commit, or directory of a kernel project [HEAD]"},
                                 {"candidate", "--candidate", version, "Commit or directory [., the working tree]"},
                                 device_argument(),
                                 workload_argument(),
                                 phase_argument(),
                                 min_gain_argument(),
                                 {"note", "--note", text, "What the change is about, for the summary"},
                                 run_argument(),
                                 seed_argument(),
                                 limit_argument()}});
  tools.push_back({.name = "journal",
                   .title = "What was done and what it showed",
                   .about = "Records, the newest first; one record; the summary of a run. Runs nothing.",
                   .measures = false,
                   .writes = false,
                   .asks_for_all = false,
                   .arguments = {project_argument(),
                                 {"last", "--last", integer, "Only the last so many", 1, 1000},
                                 {"kind", "--kind", text, "Only this kind", 0, 0, record_kinds()},
                                 {"run", "--run", text, "Only this run"},
                                 {"show", "--show", text, "One record by its id"},
                                 {"summary", "--summary", text, "The summary of the run of this name"}}});
  return tools;
}

Json schema_of(const ToolArgument& argument) {
  Json schema = {{"type", "string"}, {"description", argument.about}};
  if (argument.kind == ArgumentKind::integer) schema["type"] = "integer";
  if (argument.kind == ArgumentKind::number) schema["type"] = "number";
  if (argument.most > argument.least) {
    const bool whole = argument.kind == ArgumentKind::integer;
    schema["minimum"] = whole ? Json(static_cast<std::int64_t>(argument.least)) : Json(argument.least);
    schema["maximum"] = whole ? Json(static_cast<std::int64_t>(argument.most)) : Json(argument.most);
  }
  if (schema["type"] == "string") schema["maxLength"] = most_text_bytes;
  if (!argument.choices.empty()) schema["enum"] = argument.choices;
  return schema;
}

Json input_schema(const Tool& tool) {
  Json properties = Json::object();
  for (const ToolArgument& argument : tool.arguments) properties[argument.name] = schema_of(argument);
  properties["job"] = {{"type", "string"}, {"description", job_about}};
  properties["stop"] = {{"type", "boolean"}, {"description", stop_about}};
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

Json output_schema(const Tool& tool) {
  Json schema = short_answers_schema(tool.name, "quoted:string resources?:array");
  const Json text = {{"type", "string"}};
  schema["anyOf"].push_back({{"type", "object"},
                             {"properties",
                              {{"schema_version", {{"const", answer_schema_version}}},
                               {"command", {{"const", tool.name}}},
                               {"job",
                                {{"type", "object"},
                                 {"properties",
                                  {{"id", text},
                                   {"state", {{"enum", {"queued", "running"}}}},
                                   {"runs", text},
                                   {"since", text},
                                   {"seconds", {{"type", "number"}}},
                                   {"says", text},
                                   {"wait", {{"type", "object"}}}}},
                                 {"required", {"id", "state", "runs", "since", "seconds", "wait"}},
                                 {"additionalProperties", false}}},
                               {"next", text},
                               {"quoted", text}}},
                             {"required", {"schema_version", "command", "job", "next", "quoted"}},
                             {"additionalProperties", false},
                             {"title", "it takes longer: a job to wait for"}});
  return schema;
}

Diagnostic refused(const ToolArgument& argument, const std::string& what) {
  return {.message = fmt::format("'{}' {}", argument.name, what),
          .fix = argument.about,
          .key = argument.name,
          .code = codes::usage_command_line};
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// A commit, as git names one; nothing that git or the command line could take for an option or a path.
bool names_a_commit(const std::string& text) {
  constexpr std::string_view also = "._/@{}~^-";
  const auto fits = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || also.find(c) != std::string_view::npos;
  };
  return !text.empty() && std::isalnum(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), fits) && text.find("..") == std::string::npos;
}

Result<std::string> version_text(const std::string& root, const std::string& project, const std::string& text) {
  if (text == ".") return text;  // the project's own working tree
  std::error_code ignored;
  if (names_a_commit(text) && !fs::exists(fs::path(root) / text / "cudadent.toml", ignored)) return text;
  const fs::path beside = fs::path(project) / text;
  return inside_root(root, fs::exists(beside / "cudadent.toml", ignored) ? beside.string() : text);
}

Result<std::string> text_of(const ToolArgument& argument, const Json& value) {
  if (!value.is_string()) return refused(argument, "has to be a text");
  auto text = value.get<std::string>();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (text.empty() || text.size() > most_text_bytes || std::any_of(text.begin(), text.end(), is_control)) {
    return refused(argument, fmt::format("has to be 1 to {} bytes in one line", most_text_bytes));
  }
  if (!argument.choices.empty() &&
      std::find(argument.choices.begin(), argument.choices.end(), text) == argument.choices.end()) {
    return refused(argument, "has to be one of " + joined(argument.choices));
  }
  return text;
}

Result<std::string> number_text(const ToolArgument& argument, const Json& value) {
  const bool whole = argument.kind == ArgumentKind::integer;
  const std::string range =
      fmt::format("has to be {} from {} to {}", whole ? "an integer" : "a number", argument.least, argument.most);
  if (!(whole ? value.is_number_integer() : value.is_number())) return refused(argument, range);
  const auto number = value.get<double>();
  if (!(number >= argument.least && number <= argument.most)) return refused(argument, range);
  return whole ? fmt::format("{}", value.get<std::int64_t>()) : fmt::format("{}", number);
}

Result<std::string> value_text(const ToolArgument& argument, const Json& value, const std::string& root,
                               const std::string& project) {
  if (argument.kind == ArgumentKind::integer || argument.kind == ArgumentKind::number) {
    return number_text(argument, value);
  }
  auto text = text_of(argument, value);
  if (!text) return text.error();
  if (argument.kind == ArgumentKind::directory) return inside_root(root, *text);
  if (argument.kind == ArgumentKind::version) return version_text(root, project, *text);
  return text;
}

Result<Done> read_job(const Json& arguments, Asked& asked) {
  const auto wrong = [](const char* message, const char* fix) {
    return Diagnostic{.message = message, .fix = fix, .code = codes::usage_command_line};
  };
  if (arguments.contains("stop")) {
    if (!arguments["stop"].is_boolean()) return wrong("'stop' has to be true or false", stop_about);
    asked.stop = arguments["stop"].get<bool>();
  }
  if (arguments.contains("job")) {
    if (!arguments["job"].is_string()) return wrong("'job' has to be a text", job_about);
    asked.job = arguments["job"].get<std::string>();
    if (asked.job.empty()) return wrong("'job' is empty", job_about);
  }
  if (asked.stop && asked.job.empty()) return wrong("'stop' wants the 'job' that it ends", stop_about);
  return Done{};
}

Result<Done> check_names(const Tool& tool, const Json& arguments) {
  std::vector<std::string> known{"job", "stop"};
  for (const ToolArgument& argument : tool.arguments) known.emplace_back(argument.name);
  for (const auto& [name, value] : arguments.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Diagnostic{.message = fmt::format("{} has no argument {}", tool.name, in_marks(name, 100)),
                      .fix = "it has " + joined(known),
                      .code = codes::usage_command_line};
  }
  return Done{};
}

}  // namespace

const std::vector<Tool>& all_tools() {
  static const std::vector<Tool> tools = make_tools();
  return tools;
}

const Tool* tool_named(std::string_view name) {
  const auto& tools = all_tools();
  const auto found = std::find_if(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

Json listing_of(const Tool& tool) {
  return {{"name", tool.name},
          {"title", tool.title},
          {"description", tool.about},
          {"inputSchema", input_schema(tool)},
          {"outputSchema", output_schema(tool)},
          {"annotations", {{"readOnlyHint", !tool.writes}, {"destructiveHint", false}, {"openWorldHint", false}}}};
}

Result<std::string> inside_root(const std::string& root, const std::string& path) {
  std::error_code failed;
  const fs::path found = fs::canonical(fs::path(root) / path, failed);
  if (failed || !fs::is_directory(found, failed)) {
    return Diagnostic{.message = "there is no directory " + in_marks(path, 200) + " in the server's root",
                      .fix = "give a path relative to the root",
                      .code = codes::project_not_found};
  }
  const fs::path top(root);
  if (std::mismatch(top.begin(), top.end(), found.begin(), found.end()).first != top.end()) {
    return Diagnostic{.message = in_marks(path, 200) + " leads out of the directory that the server was started for",
                      .fix = "start a server for that directory: cudadent mcp DIRECTORY",
                      .code = codes::usage_outside};
  }
  return found.string();
}

Result<Asked> asked_of(const Tool& tool, const Json& arguments, const std::string& root) {
  Asked asked;
  if (const auto known = check_names(tool, arguments); !known) return known.error();
  if (const auto job = read_job(arguments, asked); !job) return job.error();
  if (!asked.job.empty()) return asked;
  asked.project = root;
  asked.command_line = {tool.name};
  for (const ToolArgument& argument : tool.arguments) {
    const bool is_project = argument.flag == nullptr;
    if (!arguments.contains(argument.name)) {
      if (is_project) asked.command_line.push_back(root);
      continue;
    }
    auto value = value_text(argument, arguments[argument.name], root, asked.project);
    if (!value) return value.error();
    if (is_project) asked.project = *value;
    // One word: a value that begins with a dash stays a value.
    asked.command_line.push_back(is_project ? *value : fmt::format("{}={}", argument.flag, *value));
  }
  asked.command_line.emplace_back(tool.asks_for_all ? "--json" : "--json=short");
  return asked;
}

}  // namespace flashmoe::workflow::mcp
