// The shape of every answer as JSON Schema (draft 2020-12). One row a shape: a command may answer in several.
#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "support/json_text.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// "name:type" with '?' behind the name of what may be missing, and "|null" behind the type of what may be null. A type
// is one of JSON's, or the name of a definition below.
struct Shape {
  const char* name;
  const char* command;  // empty: any
  const char* fields;
  bool is_open = false;  // other fields may be there: records of other versions
};

// What every record says, in the order in which it is written.
#define RECORD_HEAD                                                                                         \
  "version?:integer id?:string chain?:object kind:string time?:string run?:string project:string "          \
  "commit?:string|null dirty?:boolean|null device:string verdict:string evidence?:evidence seconds:number " \
  "cost?:object hashes:object environment?:object process?:integer cost_per_hour?:object|null "

constexpr std::array shapes{
    Shape{"error", "", "outcome:outcome error:problem errors?:problems left_out?:integer"},
    Shape{"status", "status",
          "directory:string project:string|null records:integer last_comparison:string|null devices:array "
          "journal_problems?:array left_out?:integer"},
    Shape{"brief", "brief",
          "project:string device:string run?:string state?:object bottleneck?:object|null no_bottleneck?:string "
          "moves?:object budget?:object failed?:array failed_more?:integer untrusted?:array left_out?:integer"},
    Shape{"patterns", "patterns", "trials:integer learned?:array shipped?:array left_out?:integer"},
    Shape{"agents", "agents", "version:string files:array left_out?:integer"},
    Shape{"doctor", "doctor",
          "gate:string outcome:outcome summary:string seconds:number findings:findings data:object evidence:evidence"},
    Shape{"doctor short", "doctor",
          "outcome:outcome summary?:string seconds?:number evidence?:evidence findings?:findings left_out?:integer"},
    Shape{"devices", "doctor", "devices:array left_out?:integer"},
    Shape{"new", "new", "name:string directory:string files:array left_out?:integer"},
    Shape{"gate", "gate",
          RECORD_HEAD "summary:string seed:integer threads:integer recipe?:object baselines:object gates:gates "
                      "outcome:outcome record_problem?:string"},
    Shape{"gate short", "gate",
          "outcome:outcome id?:string project?:string device?:string summary?:string seconds?:number "
          "evidence?:evidence record_problem?:string speed?:object bottleneck?:object gates?:array findings?:findings "
          "left_out?:integer"},
    Shape{"profile", "profile",
          "outcome:outcome id?:string project:string device:string evidence:evidence workload:string summary:string "
          "profile:object findings:array launches:array record_problem?:string"},
    Shape{"profile short", "profile",
          "outcome:outcome project?:string device?:string workload?:string summary?:string bottleneck?:object|null "
          "findings?:findings launches?:array left_out?:integer"},
    Shape{"predict", "predict",
          "outcome:outcome project:string device:string evidence:evidence workload:string summary:string cycles:number "
          "boost:object|null sustained:object|null launches:array"},
    Shape{"predict short", "predict",
          "outcome:outcome project?:string device?:string evidence?:evidence workload?:string summary?:string "
          "cycles?:number boost?:object|null sustained?:object|null launches?:array left_out?:integer"},
    Shape{"advise", "advise",
          "project:string device:string workload:string findings?:array advice?:array left_out?:integer"},
    Shape{"try", "try",
          RECORD_HEAD "hypothesis:string patch:string gates:array comparison_record:object|null notes:array", true},
    Shape{"try short", "try",
          "verdict:string id?:string project?:string device?:string run?:string workload?:string hypothesis?:string "
          "gain?:object|null seen?:array files?:array lines_added?:integer lines_removed?:integer candidate?:string "
          "parent?:string summary?:string notes?:array evidence?:evidence seconds?:number left_out?:integer"},
    Shape{
        "optimize", "optimize",
        "run:string device:string start:string end:string iterations?:array bottlenecks?:array cycles_at_start?:number "
        "cycles_at_end?:number predicted_at_start?:number|null predicted_at_end?:number|null "
        "busiest_sm_at_start?:number busiest_sm_at_end?:number baseline?:string ratio_at_start?:number|null "
        "ratio_at_end?:number|null elsewhere?:array stopped?:string seconds?:number waiting?:integer verdict:string "
        "left_out?:integer"},
    Shape{"shard", "optimize",
          "run:string device:string shard:string batch:integer counted:integer open:integer seconds:number "
          "left_out?:integer"},
    Shape{"run", "run",
          "device:string clock:string evidence:evidence outcome:string program_exit_code:integer findings:integer "
          "refused:array launches:array"},
    Shape{"run short", "run",
          "outcome:string device?:string program_exit_code?:integer findings?:integer first_findings?:array "
          "refused?:array launches?:array "
          "left_out?:integer"},
    Shape{"run explained", "run",
          "program:string runtime:string missing?:array kernels?:integer cannot_run?:array libraries?:array "
          "notes?:array environment?:object left_out?:integer"},
    Shape{"compare", "compare",
          RECORD_HEAD
          "key:string|null note?:string phase?:string base?:object candidate?:object workload?:string "
          "final_claim?:boolean policy?:object seed:integer|null recipe?:object gain:object|null pairs_used:integer "
          "calibration:object samples:array calibration_samples:array counters?:array predicted?:object "
          "not_predicted?:string problem?:string fix?:string notes:array"},
    Shape{
        "compare short", "compare",
        "verdict:string id?:string project?:string device?:string run?:string workload?:string gain?:object|null "
        "pairs_used?:integer problem?:string fix?:string notes?:array evidence?:evidence seconds?:number base?:object "
        "candidate?:object policy?:object calibration?:object note?:string phase?:string seed?:integer|null "
        "left_out?:integer"},
    Shape{"first-light", "first-light",
          "outcome:outcome summary?:string device?:string card?:string rehearsal?:boolean steps?:array "
          "beside_predictions?:array notes?:array machine?:string seconds?:number dollars?:number bundle?:string "
          "bundle_sha256?:string left_out?:integer"},
    Shape{"bundle check", "first-light",
          "bundle_sha256:string rehearsal?:boolean files:integer problems:array left_out?:integer"},
    Shape{"records", "journal", "records:array left_out?:integer"},
    Shape{"record", "journal", "id:string kind:string verdict:string standing:string", true},
    Shape{"record check", "journal",
          "holds:boolean records:integer standing:object missing:integer damaged:integer problems:array notes:array "
          "left_out?:integer"},
    Shape{"merged journals", "journal",
          "holds:boolean journals:integer records:integer added:integer duplicates:integer conflicts:array "
          "refused:array problems:array notes:array left_out?:integer"},
    Shape{"exported traces", "journal", "format:string schema:string traces:array not_told:integer left_out?:integer"},
    Shape{"imported traces", "journal", "format:string read:integer added:integer"},
    Shape{"records side by side", "journal",
          "a:string|null b:string|null same:integer differs:array left_out?:integer"},
    Shape{"summary of a run", "journal",
          "run:string project:string|null device:string|null records:integer changes:array", true},
    Shape{"runs", "journal", "runs:array left_out?:integer"},
    Shape{"report", "report",
          "outcome:outcome run:string project:string device:string files:array records:integer "
          "left_out_records:integer changes:integer predicted:array not_predicted?:string|null left_out?:integer"},
    Shape{"reproduce", "reproduce", "id:string kind:string verdict:string standing?:string", true},
    Shape{"selftest", "selftest",
          "verdict:string seconds:number evidence?:evidence checks:array simulated_null:object power:array real:array "
          "cheats:array",
          true},
    Shape{"selftest short", "selftest",
          "verdict:string seconds?:number evidence?:evidence checks?:array left_out?:integer"},
    Shape{"mcp", "mcp", "root:string tools:array config:object left_out?:integer"},
    Shape{"codes", "schema", "codes:array left_out?:integer"},
    Shape{"completion", "completion", "shell:string script:string left_out?:integer"}};

Json closed(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json list_of(const char* definition) {
  return {{"type", "array"}, {"items", {{"$ref", std::string("#/$defs/") + definition}}}};
}

Json type_of(const std::string& type) {
  if (type == "findings") return list_of("finding");
  if (type == "problems") return list_of("problem");
  if (type == "gates") return list_of("gate");
  for (const char* definition : {"outcome", "evidence", "problem"}) {
    if (type == definition) return {{"$ref", "#/$defs/" + type}};
  }
  if (const std::size_t bar = type.find('|'); bar != std::string::npos) {
    return {{"type", Json::array({type.substr(0, bar), type.substr(bar + 1)})}};
  }
  return {{"type", type}};
}

// Fields of a row into properties and what of them must be there.
void add_fields(std::string_view fields, Json& properties, Json& required) {
  std::istringstream words{std::string(fields)};
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    std::string name = word.substr(0, colon);
    if (name.back() == '?') {
      name.pop_back();
    } else {
      required.push_back(name);
    }
    properties[name] = type_of(word.substr(colon + 1));
  }
}

Json object_of(std::string_view fields) {
  Json properties = Json::object();
  Json required = Json::array();
  add_fields(fields, properties, required);
  return closed(std::move(properties), std::move(required));
}

Json known_codes() {
  Json list = Json::array();
  for (const ProblemCode& row : all_codes()) list.push_back(row.code);
  return {{"enum", std::move(list)}};
}

Json shape_schema(const Shape& shape) {
  Json properties = {{"schema_version", {{"const", answer_schema_version}}}, {"command", {{"type", "string"}}}};
  if (*shape.command != '\0') properties["command"] = {{"const", shape.command}};
  properties["exit_code"] = {{"type", "integer"}};
  properties["code"] = {{"$ref", "#/$defs/code_or_null"}};
  properties["next"] = {{"type", "string"}, {"minLength", 1}};
  Json required = Json::array({"schema_version", "command", "exit_code", "code", "next"});
  add_fields(shape.fields, properties, required);
  Json schema = closed(std::move(properties), std::move(required));
  if (shape.is_open) schema["additionalProperties"] = true;
  schema["title"] = shape.name;
  return schema;
}

Json definitions() {
  Json defs = {{"code", known_codes()}};
  defs["code_or_null"] = {{"anyOf", Json::array({{{"type", "null"}}, {{"$ref", "#/$defs/code"}}})}};
  defs["outcome"] = {{"enum", Json::array()}};
  for (const Outcome outcome : {Outcome::holds, Outcome::fails, Outcome::inconclusive, Outcome::could_not_run}) {
    defs["outcome"]["enum"].push_back(name_of(outcome));
  }
  defs["evidence"] = object_of("kind:string where:string error?:number confinement?:string");
  defs["problem"] =
      object_of("code:string message:string fix:string file?:string line?:integer column?:integer key?:string");
  defs["problem"]["properties"]["code"] = {{"$ref", "#/$defs/code"}};
  defs["finding"] = object_of("severity:string code?:string group:string what:string where?:string fix?:string");
  defs["finding"]["properties"]["code"] = {{"$ref", "#/$defs/code"}};
  defs["gate"] =
      object_of("gate:string outcome:outcome code?:string summary:string seconds:number findings:findings data:object");
  defs["gate"]["properties"]["code"] = {{"$ref", "#/$defs/code"}};
  return defs;
}

bool has_short_shape(std::string_view command) {
  return std::any_of(shapes.begin(), shapes.end(),
                     [&](const Shape& shape) { return shape.name == std::string(command) + " short"; });
}

}  // namespace

Json short_answers_schema(const std::string& command, const std::string& also) {
  Json any = Json::array();
  for (const Shape& shape : shapes) {
    const bool is_error = *shape.command == '\0';
    if (!is_error && (shape.command != command || (shape.name == command && has_short_shape(command)))) continue;
    Json schema = shape_schema(shape);
    add_fields(also, schema["properties"], schema["required"]);
    any.push_back(std::move(schema));
  }
  Json defs = definitions();
  defs["code"] = {{"type", "string"}};
  return {{"type", "object"}, {"anyOf", std::move(any)}, {"$defs", std::move(defs)}};
}

std::string answers_schema_json() {
  Json any = Json::array();
  for (const Shape& shape : shapes) any.push_back(shape_schema(shape));
  return indented({{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "what cudadent prints with --json"},
                   {"anyOf", std::move(any)},
                   {"$defs", definitions()}});
}

}  // namespace flashmoe::workflow
