#include "workflow/gpu/launch_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {
namespace {

std::optional<ReportedParty> party_in(const Json& finding, const char* key) {
  const Json* json = field_in(finding, key);
  if (json == nullptr) return std::nullopt;
  ReportedParty party{.what = text_in(*json, "what"),
                      .source_file = text_in(*json, "source_file"),
                      .source_line = integer_in(*json, "source_line"),
                      .ptx_line = integer_in(*json, "ptx_line"),
                      .instruction = text_in(*json, "instruction")};
  if (const Json* block = field_in(*json, "block")) party.block = one_line(*block);
  if (const Json* thread = field_in(*json, "thread")) party.thread = one_line(*thread);
  return party;
}

std::optional<ReportedBuffer> buffer_in(const Json& finding) {
  const Json* json = field_in(finding, "buffer");
  if (json == nullptr) return std::nullopt;
  ReportedBuffer buffer{.what = text_in(*json, "what"),
                        .offset = static_cast<std::int64_t>(number_in(*json, "offset"))};
  if (field_in(*json, "argument") != nullptr) buffer.argument = static_cast<std::size_t>(integer_in(*json, "argument"));
  return buffer;
}

LaunchReport launch_from(const Json& json) {
  LaunchReport launch{.kernel = text_in(json, "kernel"),
                      .name = text_in(json, "name"),
                      .fault = text_in(json, "fault"),
                      .refused = text_in(json, "refused"),
                      .schedule = text_in(json, "schedule"),
                      .seed = static_cast<std::uint64_t>(number_in(json, "seed")),
                      .sms = number_in(json, "sms"),
                      .waves = number_in(json, "waves"),
                      .waves_of_grid = number_in(json, "waves_of_grid"),
                      .working_ctas = number_in(json, "working_ctas"),
                      .working_sms = number_in(json, "working_sms"),
                      .largest_cta_over_mean = number_in(json, "largest_cta_over_mean"),
                      .occupancy_percent = number_in(json, "occupancy_percent"),
                      .ctas_per_sm = number_in(json, "ctas_per_sm"),
                      .occupancy_limiter = text_in(json, "occupancy_limiter"),
                      .summary = text_in(json, "summary"),
                      .json = one_line(json)};
  for (const Json& axis : list_in(json, "grid")) launch.grid.push_back(axis.is_number() ? axis.get<std::int64_t>() : 0);
  for (const Json& metric : list_in(json, "metrics"))
    launch.metrics.emplace(text_in(metric, "name"), number_in(metric, "value"));
  for (const Json& one : list_in(json, "missing")) launch.missing.emplace(text_in(one, "name"), text_in(one, "why"));
  for (const Json& line : list_in(json, "source_lines"))
    launch.source_lines.push_back({.file = text_in(line, "file"),
                                   .line = integer_in(line, "line"),
                                   .instructions = number_in(line, "ptx_inst_executed"),
                                   .shared_bank_conflicts = number_in(line, "shared_bank_conflicts"),
                                   .global_sectors = number_in(line, "global_sectors"),
                                   .global_sectors_ideal = number_in(line, "global_sectors_ideal")});
  for (const Json& source : list_in(json, "annotated_sources"))
    if (source.is_string()) launch.annotated_sources.push_back(source.get<std::string>());
  for (const Json& finding : list_in(json, "findings"))
    launch.findings.push_back({.check = text_in(finding, "check"),
                               .cause = text_in(finding, "cause"),
                               .kernel = text_in(finding, "kernel"),
                               .message = text_in(finding, "message"),
                               .advice = text_in(finding, "advice"),
                               .at = party_in(finding, "at"),
                               .other = party_in(finding, "other"),
                               .buffer = buffer_in(finding),
                               .json = one_line(finding)});
  return launch;
}

}  // namespace

ReportFile::ReportFile()
    : path_(
          (std::filesystem::temp_directory_path() / fmt::format("cudadent-vgpu-{}-{:x}.jsonl", getpid(), fresh_seed()))
              .string()) {}

ReportFile::~ReportFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string ReportedParty::place() const {
  if (!source_file.empty()) return fmt::format("{}:{}", source_file, source_line);
  return fmt::format("PTX line {}: {}", ptx_line, instruction);
}

std::string ReportedParty::runner() const {
  return fmt::format("block {} thread {}", block, thread);
}

std::int64_t LaunchReport::ctas() const {
  return std::accumulate(grid.begin(), grid.end(), std::int64_t{1}, std::multiplies<>());
}

double LaunchReport::instructions() const {
  const auto found = metrics.find("vgpu__ptx_inst_executed.sum");
  return found != metrics.end() ? found->second : 0;
}

LaunchReport read_launch(const std::string& json) {
  return launch_from(parse_json(json));
}

std::vector<LaunchReport> read_launches(const std::string& path) {
  std::uint64_t from_the_first = 0;
  return read_launches(path, from_the_first);
}

std::uint64_t end_of_report(const std::string& path) {
  std::error_code none_yet;
  const auto bytes = std::filesystem::file_size(path, none_yet);
  return none_yet ? 0 : bytes;
}

std::vector<LaunchReport> read_launches(const std::string& path, std::uint64_t& from) {
  std::vector<LaunchReport> launches;
  std::ifstream file(path);
  file.seekg(static_cast<std::streamoff>(from));
  for (std::string line; std::getline(file, line);) {
    from += line.size() + 1;
    const Json json = parse_json(line);
    if (json.is_object()) launches.push_back(launch_from(json));
  }
  return launches;
}

}  // namespace flashmoe::workflow
