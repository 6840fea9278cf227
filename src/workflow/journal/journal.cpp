#include "workflow/journal/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <utility>

#include "support/confinement.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/journal/chain.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/index.hpp"
#include "workflow/journal/line_file.hpp"
#include "workflow/journal/lines_as_records.hpp"
#include "workflow/journal/read_headings.hpp"
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

// ---- chains -------------------------------------------------------------------------------------------------------

// Where the chain ends: what was announced and is in the file has been written, whoever was killed before he could
// confirm it.
ChainEnd end_of(const ChainMemory& memory, const std::vector<Heading>& headings) {
  const bool written = std::any_of(headings.rbegin(), headings.rend(),
                                   [&](const Heading& heading) { return heading.sha256 == memory.announced.sha256; });
  return written ? memory.announced : memory.written;
}

// Sets the standing of each.
void judge(const std::string& path, std::vector<Heading>& headings, JournalState& state) {
  const auto memory = remembered(path);
  ChainCheck check =
      check_chains(headings, writer_of(path), memory ? std::optional(end_of(*memory, headings)) : std::nullopt);
  state.problems = std::move(check.problems);
  state.notes = std::move(check.notes);
  state.missing = check.missing;
}

// The end of this writer's chain as the file tells, where nothing is remembered.
ChainEnd last_in(const std::vector<Heading>& headings, const std::string& writer) {
  ChainEnd last;
  for (const Heading& heading : headings) {
    const bool ours = heading.chain && heading.chain->writer == writer && heading.chain->sequence > last.sequence;
    if (ours && heading.standing != Standing::changed)
      last = {.sequence = heading.chain->sequence, .sha256 = heading.sha256};
  }
  return last;
}

// Only for the very file that was read, which nobody else may change meanwhile. Who appends right now may be this very
// process: it is not waited for.
void store_index(const std::string& path, const Index& index, const FileStamp& read) {
  const auto lines = LockedLines::open_if_free(path);
  if (lines && lines->stamp() == read && index.covered == read.size) seal_index(path, index, read);
}

// What the next record of this writer follows; the caller holds the lock.
ChainEnd last_written(const Journal& journal) {
  const auto memory = remembered(journal.path());
  if (memory && memory->announced == memory->written) return memory->written;
  const auto headings = journal.headings();
  if (!headings) return {};
  return memory ? end_of(*memory, *headings) : last_in(*headings, writer_of(journal.path()));
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
  const ChainEnd before = last_written(*this);
  record.chain = Chain{.writer = writer_of(path_), .sequence = before.sequence + 1, .previous = before.sha256};
  const Json full = complete_json(record);
  const ChainEnd now{.sequence = record.chain->sequence, .sha256 = sha256_hex(one_line(full))};
  record.id = now.sha256.substr(0, id_digits);
  Json identified = {{"version", record_version}, {"id", record.id}};
  for (const auto& [key, value] : full.items()) identified[key] = value;
  record.line = one_line(identified);
  remember(path_, {.written = before, .announced = now});
  const FileStamp found = lines->stamp();
  const auto written = lines->append(record.line);
  if (!written) return written.error();
  move_seal(path_, found, lines->stamp());
  remember(path_, {.written = now, .announced = now});
  return record;
}

Result<std::vector<Record>> Journal::read(JournalState* state) const {
  const auto all = read_from(path_, 0);
  if (!all) return all.error();
  const std::vector<std::string_view> lines = lines_in(*all);
  JournalState found{.damaged = all->torn_end ? 1 : 0};
  std::vector<Record> records;
  std::vector<Heading> headings;
  for (auto& made : of_each_line(lines, [](std::string_view line) {
         auto record = record_in(line);
         return std::pair(record ? heading_of(*record) : Heading{}, std::move(record));
       })) {
    if (!made.second) {
      ++found.damaged;
      continue;
    }
    headings.push_back(std::move(made.first));
    records.push_back(std::move(*made.second));
  }
  judge(path_, headings, found);
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].standing = headings[i].standing;
    records[i].standing_why = std::move(headings[i].standing_why);
  }
  if (state != nullptr) *state = std::move(found);
  return records;
}

Result<std::vector<Heading>> Journal::headings(JournalState* state) const {
  const FileStamp before = stamp_of(path_);
  return headings_beyond(sealed_index(path_, before).value_or(Index{}), before, state);
}

Result<std::vector<Heading>> Journal::verified_headings(JournalState* state) const {
  return headings_beyond({}, stamp_of(path_), state);
}

// What the index covers and what stands behind it, which is read from the lines.
Result<std::vector<Heading>> Journal::headings_beyond(Index index, const FileStamp& before, JournalState* state) const {
  const auto rest = read_from(path_, index.covered);
  if (!rest) return rest.error();
  HeadingsRead read = read_headings(*rest);
  constexpr std::size_t worth_storing = 500;  // lines that every reader would parse again
  const bool is_long = read.headings.size() >= worth_storing;
  index.headings.insert(index.headings.end(), std::make_move_iterator(read.headings.begin()),
                        std::make_move_iterator(read.headings.end()));
  index.damaged += read.damaged;
  index.covered += rest->text.size();
  if (is_long) store_index(path_, index, before);
  JournalState found{.damaged = index.damaged + (rest->torn_end ? 1 : 0)};
  judge(path_, index.headings, found);
  if (state != nullptr) *state = std::move(found);
  return std::move(index.headings);
}

Result<Record> Journal::load(const Heading& heading) const {
  const auto line = read_part(path_, heading.offset, heading.length);
  if (!line) return line.error();
  auto record = record_in(*line);
  if (!record || content_sha256(record->line) != heading.sha256) {
    break_seal(path_);
    return Diagnostic{.message = "record " + heading.id + " is not what it was when it was last read",
                      .fix = "cudadent journal --check names what was changed",
                      .file = path_,
                      .code = codes::journal_changed};
  }
  record->standing = heading.standing;
  record->standing_why = heading.standing_why;
  return std::move(*record);
}

Result<std::vector<Record>> Journal::read_last(std::size_t most, JournalState* state) const {
  const auto all = headings(state);
  if (!all) return all.error();
  std::vector<Record> records;
  for (std::size_t i = all->size() - std::min(most, all->size()); i < all->size(); ++i) {
    auto record = load((*all)[i]);
    if (!record) return record.error();
    records.push_back(std::move(*record));
  }
  return records;
}

Result<Record> Journal::find(const std::string& id_prefix) const {
  const auto all = headings();
  if (!all) return all.error();
  const Heading* found = nullptr;
  for (const Heading& heading : *all) {
    if (id_prefix.empty() || !heading.id.starts_with(id_prefix)) continue;
    if (found != nullptr && found->id != heading.id) {
      return Diagnostic{.message = "record id '" + id_prefix + "' is ambiguous: " + found->id + " and " + heading.id,
                        .fix = "give more digits",
                        .file = path_,
                        .code = codes::usage_record};
    }
    found = &heading;
  }
  if (found == nullptr) {
    return Diagnostic{.message = "no record '" + id_prefix + "' among " + std::to_string(all->size()),
                      .fix = "cudadent journal lists them",
                      .file = path_,
                      .code = codes::usage_record};
  }
  return load(*found);
}

Record unwritten(Record record) {
  record.kind = kind_of(record);
  if (!record.evidence) record.evidence = evidence_of(record);
  record.line = one_line(to_json(record));
  return record;
}

bool is_usable(const Record& record) {
  return is_usable(record.standing, record.standing_why);
}

Result<Record> parse_record(const std::string& text) {
  const Json json = bounded_json(text);
  if (!json.is_object()) return Diagnostic{.message = "no JSON object"};
  Record record = record_from(json);
  if (record.verdict.empty()) record.verdict = text_in(json, "outcome");  // what a command says that made no record
  return record;
}

}  // namespace flashmoe::workflow
