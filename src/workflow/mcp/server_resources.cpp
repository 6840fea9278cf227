// The part of the server that lists and reads resources.
#include <fmt/format.h>

#include <array>
#include <sstream>
#include <utility>

#include "support/foreign_text.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "workflow/mcp/server.hpp"
#include "workflow/mcp/uris.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow::mcp {
namespace {

constexpr const char* json_type = "application/json";
constexpr const char* text_type = "text/plain";
constexpr const char* schema_type = "application/schema+json";

// Every line of it marked, so that none can pass for the server's own.
std::string quoted_lines(const std::string& log) {
  constexpr std::size_t most_line_bytes = 400;
  std::string out = std::string(foreign_text_notice) + "\n";
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) out += in_marks(line, most_line_bytes) + "\n";
  return out;
}

// Of "a%20b"; what is no escape stays.
std::string unescaped(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    const std::size_t at = std::string_view("0123456789abcdefABCDEF").find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at < 16 ? at : at - 6);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = high >= 0 ? digit(text[i + 2]) : -1;
    out += low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
    if (low >= 0) i += 2;
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::string Server::record_uri(const Job& job) const {
  std::string uri = records_uri + escaped(job.answer.record);
  if (job.project.size() > options_.root.size()) {
    const std::size_t slash = options_.root == "/" ? 0 : 1;
    uri += "?project=" + escaped(job.project.substr(options_.root.size() + slash));
  }
  return uri;
}

std::vector<Link> Server::links_of(const Job& job) const {
  std::vector<Link> links;
  if (job.state != Job::State::ended) return links;
  const std::string place = fmt::format("{}/{}", jobs_uri, job.id);
  if (!job.answer.record.empty()) {
    links.push_back({record_uri(job), "record " + job.answer.record, "The whole record", json_type});
  }
  if (job.tool->asks_for_all && !job.answer.is_whole) {
    links.push_back({place + "/answer", "answer of " + job.id, "The whole answer", json_type});
  }
  if (job.answer.is_error && !job.log.empty()) {
    links.push_back({place + "/log", "log of " + job.id, "What it wrote to stderr, quoted", text_type});
  }
  return links;
}

void Server::list_resources(const Message& message, bool is_modern) {
  Json list = Json::array();
  const auto add = [&](const std::string& uri, const std::string& name, const char* about, const char* type) {
    list.push_back({{"uri", uri}, {"name", name}, {"description", about}, {"mimeType", type}});
  };
  add(jobs_uri, "jobs", "What this server runs and ran", json_type);
  add(schema_uri, "schema of answers", "The JSON Schema of what every command prints with --json", schema_type);
  for (const Job& job : jobs_.all()) {
    if (job.state != Job::State::ended) continue;
    const std::string place = fmt::format("{}/{}", jobs_uri, job.id);
    add(place + "/answer", "answer of " + job.id, "What the command printed", json_type);
    add(place + "/log", "log of " + job.id, "What it wrote to stderr, quoted", text_type);
    if (!job.answer.record.empty() && job.tool->writes) {
      add(record_uri(job), "record " + job.answer.record, "The whole record", json_type);
    }
  }
  answer_cacheable(message.id, is_modern, {{"resources", std::move(list)}}, 0);
}

void Server::list_templates(const Message& message, bool is_modern) {
  const Json record = {{"uriTemplate", record_template},
                       {"name", "record"},
                       {"description", "A record of the journal, whole, by its id; project as tools have it"},
                       {"mimeType", json_type}};
  answer_cacheable(message.id, is_modern, {{"resourceTemplates", Json::array({record})}}, list_seconds);
}

void Server::answer_contents(const Json& id, bool is_modern, const std::string& uri, const char* type,
                             const std::string& text) {
  Json contents = {{"uri", uri}, {"mimeType", type}, {"text", text}};
  answer_cacheable(id, is_modern, {{"contents", Json::array({std::move(contents)})}}, 0);
}

void Server::read_resource(const Message& message, bool is_modern) {
  const Json* given = field_in(message.params, "uri");
  if (given == nullptr || !given->is_string()) return refuse(message.id, invalid_params, "uri has to be a text");
  const auto uri = given->get<std::string>();
  const auto tell = [&](const char* type, const std::string& text) {
    answer_contents(message.id, is_modern, uri, type, text);
  };
  if (uri == schema_uri) return tell(schema_type, answers_schema_json());
  if (uri == jobs_uri) {
    Json list = Json::array();
    for (const Job& job : jobs_.all()) {
      const JobState state = Jobs::state_of(job);
      constexpr std::array names{"queued", "running", "ended"};
      list.push_back({{"id", job.id},
                      {"tool", job.tool->name},
                      {"state", names.at(static_cast<std::size_t>(job.state))},
                      {"runs", visible(state.runs, 1000)},
                      {"since", job.since}});
    }
    return tell(json_type, indented({{"jobs", std::move(list)}}));
  }
  const std::string of_jobs = std::string(jobs_uri) + "/";
  const std::string of_records = records_uri;
  if (uri.starts_with(of_records)) return read_record(message, is_modern, uri.substr(of_records.size()));
  const std::size_t slash = uri.rfind('/');
  if (uri.starts_with(of_jobs) && slash > of_jobs.size()) {
    const Job* job = jobs_.find(uri.substr(of_jobs.size(), slash - of_jobs.size()));
    const std::string part = uri.substr(slash + 1);
    if (job != nullptr && part == "log") {
      return tell(text_type, quoted_lines(job->child ? job->child->log() : job->log));
    }
    if (job != nullptr && part == "answer" && job->state == Job::State::ended) {
      return tell(json_type, job->answer.whole);
    }
  }
  refuse(message.id, is_modern ? invalid_params : legacy_resource_not_found, "Resource not found",
         {{"uri", visible(uri, 200)}});
}

// By the command itself, as everything else: its journal is the one that verifies records.
void Server::read_record(const Message& message, bool is_modern, const std::string& place) {
  constexpr std::string_view project_key = "project=";
  const std::size_t query = place.find('?');
  Json arguments = {{"show", unescaped(place.substr(0, query))}};
  if (query != std::string::npos && place.substr(query + 1).starts_with(project_key)) {
    arguments["project"] = unescaped(place.substr(query + 1 + project_key.size()));
  }
  const Tool& journal = *tool_named("journal");
  auto asked = asked_of(journal, arguments, options_.root);
  const auto not_found = [&](const std::string& why) {
    refuse(message.id, is_modern ? invalid_params : legacy_resource_not_found, "Resource not found: " + why,
           {{"uri", visible(text_in(message.params, "uri"), 200)}});
  };
  if (!asked) return not_found(asked.error().message);
  asked->command_line.back() = "--json";
  const auto job = jobs_.start(journal, *asked);
  if (!job) return not_found(job.error().message);
  wait_for(message, is_modern, **job, true, text_in(message.params, "uri"));
}

}  // namespace flashmoe::workflow::mcp
