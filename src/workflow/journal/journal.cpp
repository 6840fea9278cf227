#include "workflow/journal/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "support/confinement.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/journal/chain.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/line_file.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/journal/record_json.hpp"
#include "workflow/journal/writer.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::string utc_text(const char* format, std::time_t seconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), format, &parts);
  return {text.data(), length};
}

std::string kind_of(const Record& record) {
  const auto name = [&](const auto& body) -> std::string {
    if constexpr (requires { body.kind; }) return body.kind;
    return record.kind.empty() ? "note" : record.kind;
  };
  return std::visit(name, record.body);
}

Prices prices_of(const RecordBody& body) {
  const auto prices = [](const auto& inner) -> Prices {
    if constexpr (requires { inner.cost_per_hour; }) return inner.cost_per_hour.value_or(Prices{});
    return {};
  };
  return std::visit(prices, body);
}

Evidence evidence_of(const Record& record) {
  const MachineFacts& machine = record.environment ? *record.environment : machine_facts();
  std::string where = machine.cpu.value_or("");
  if (machine.host) where += (where.empty() ? "" : ", ") + *machine.host;
  Evidence evidence = evidence_on(record.device, where);
  // A card that nobody reached has shown nothing.
  const bool nothing_ran = record.verdict == name_of(Outcome::could_not_run) && record.device.starts_with("cuda:");
  if (nothing_ran) return {.kind = no_evidence, .where = record.device};
  if (evidence.kind == measured_evidence) evidence.confinement = confinement_here();
  return evidence;
}

// The writer's own fields win; the rest is learned here.
void complete(Record& record, const std::string& directory) {
  record.kind = kind_of(record);
  record.time = utc_now();
  if (record.run.empty()) record.run = current_run();
  if (record.project.empty()) record.project = std::filesystem::path(directory).filename().string();
  if (!record.commit || !record.dirty) {
    const TreeState tree = tree_state(directory);
    if (!record.commit) record.commit = tree.commit;
    if (!record.dirty) record.dirty = tree.dirty;
  }
  if (record.commit->empty()) record.commit.reset();
  record.cost = cost_of(record.seconds, prices_of(record.body));
  if (!record.environment) record.environment = machine_facts();
  const Evidence of_device = evidence_of(record);
  if (!record.evidence) record.evidence = of_device;
  // Whatever its writer thinks.
  if (of_device.kind == rehearsal_evidence) record.evidence = of_device;
  record.process = ::getpid();
}

// Where the chain ends: what was announced and is in the file has been written, whoever was killed before he could
// confirm it.
ChainEnd end_of(const ChainMemory& memory, const std::vector<std::string>& lines) {
  if (memory.announced == memory.written) return memory.written;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (content_sha256(*line) == memory.announced.sha256) return memory.announced;
  }
  return memory.written;
}

// What the next record of this writer follows; the caller holds the lock. Where nothing is remembered, the file tells.
ChainEnd last_written(const std::string& path) {
  const auto memory = remembered(path);
  if (memory && memory->announced == memory->written) return memory->written;
  const auto lines = read_lines(path);
  if (!lines) return {};
  if (memory) return end_of(*memory, lines->whole);
  ChainEnd last;
  for (const std::string& line : lines->whole) {
    const Record record = record_from(bounded_json(line));
    if (!record.chain || record.chain->writer != this_writer() || record.chain->sequence <= last.sequence) continue;
    const std::string sha256 = content_sha256(line);
    if (!sha256.empty() && sha256.substr(0, id_digits) == record.id)
      last = {.sequence = record.chain->sequence, .sha256 = sha256};
  }
  return last;
}

}  // namespace

void keep_out_of_git(const std::filesystem::path& state_directory) {
  std::error_code error;
  const std::filesystem::path ignore = state_directory / ".gitignore";
  if (std::filesystem::exists(ignore, error)) return;
  std::filesystem::create_directories(state_directory, error);
  // New, or not at all: a link that leads nowhere yet is not followed.
  const int fd = ::open(ignore.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return;
  static_cast<void>(!::write(fd, "*\n", 2));
  ::close(fd);
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::string fraction = std::to_string(micros % 1'000'000);
  fraction.insert(0, 6 - fraction.size(), '0');
  return utc_text("%Y-%m-%dT%H:%M:%S", static_cast<std::time_t>(micros / 1'000'000)) + "." + fraction + "Z";
}

std::string current_run() {
  const char* run = std::getenv("CUDADENT_RUN");
  return run != nullptr && *run != '\0' ? run : utc_text("%Y-%m-%d", std::time(nullptr));
}

Journal::Journal(std::string project_directory) {
  std::error_code error;
  const auto absolute = std::filesystem::weakly_canonical(project_directory, error);
  directory_ = error ? std::move(project_directory) : absolute.string();
  path_ = (std::filesystem::path(directory_) / ".cudadent" / "records.jsonl").string();
}

Result<Record> Journal::append(Record record) {
  if (std::error_code error; !std::filesystem::is_symlink(std::filesystem::path(path_).parent_path(), error)) {
    keep_out_of_git(std::filesystem::path(path_).parent_path());
  }
  complete(record, directory_);
  const auto lines = LockedLines::open(path_);
  if (!lines) return lines.error();
  const ChainEnd before = last_written(path_);
  record.chain = Chain{.writer = this_writer(), .sequence = before.sequence + 1, .previous = before.sha256};
  const Json full = complete_json(record);
  const ChainEnd now{.sequence = record.chain->sequence, .sha256 = sha256_hex(one_line(full))};
  record.id = now.sha256.substr(0, id_digits);
  Json identified = {{"version", record_version}, {"id", record.id}};
  for (const auto& [key, value] : full.items()) identified[key] = value;
  record.line = one_line(identified);
  remember(path_, {.written = before, .announced = now});
  const auto written = lines->append(record.line);
  if (!written) return written.error();
  remember(path_, {.written = now, .announced = now});
  return record;
}

Result<std::vector<Record>> Journal::read(JournalState* state) const {
  const auto lines = read_lines(path_);
  if (!lines) return lines.error();
  JournalState found{.damaged = lines->torn_end ? 1 : 0};
  std::vector<Record> records;
  for (const std::string& line : lines->whole) {
    const Json json = bounded_json(line);
    const bool reads = json.is_object() && json.contains("id") && json["id"].is_string() && json.contains("version") &&
                       json["version"].is_number_integer() && json.contains("kind") && json["kind"].is_string();
    if (!reads) {
      ++found.damaged;
      continue;
    }
    records.push_back(record_from(json));
    records.back().line = line;  // byte for byte: its hash is checked
  }
  const auto memory = remembered(path_);
  ChainCheck check =
      check_chains(records, this_writer(), memory ? std::optional(end_of(*memory, lines->whole)) : std::nullopt);
  found.problems = std::move(check.problems);
  found.notes = std::move(check.notes);
  found.missing = check.missing;
  if (state != nullptr) *state = std::move(found);
  return records;
}

Result<Record> Journal::find(const std::string& id_prefix) const {
  auto records = read();
  if (!records) return records.error();
  const Record* found = nullptr;
  for (const Record& record : *records) {
    if (id_prefix.empty() || !record.id.starts_with(id_prefix)) continue;
    if (found != nullptr && found->id != record.id) {
      return Diagnostic{.message = "record id '" + id_prefix + "' is ambiguous: " + found->id + " and " + record.id,
                        .fix = "give more digits",
                        .file = path_,
                        .code = codes::usage_record};
    }
    found = &record;
  }
  if (found == nullptr) {
    return Diagnostic{.message = "no record '" + id_prefix + "' among " + std::to_string(records->size()),
                      .fix = "cudadent journal lists them",
                      .file = path_,
                      .code = codes::usage_record};
  }
  return *found;
}

Record unwritten(Record record) {
  record.kind = kind_of(record);
  if (!record.evidence) record.evidence = evidence_of(record);
  record.line = one_line(to_json(record));
  return record;
}

bool is_usable(const Record& record) {
  return record.standing == Standing::chained || record.standing == Standing::unchained ||
         (record.standing == Standing::foreign && record.chain && record.chain->writer != this_writer());
}

Result<Record> parse_record(const std::string& text) {
  const Json json = bounded_json(text);
  if (!json.is_object()) return Diagnostic{.message = "no JSON object"};
  Record record = record_from(json);
  if (record.verdict.empty()) record.verdict = text_in(json, "outcome");  // what a command says that made no record
  return record;
}

}  // namespace flashmoe::workflow
