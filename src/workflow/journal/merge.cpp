#include "workflow/journal/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "support/text.hpp"
#include "workflow/journal/chain.hpp"
#include "workflow/journal/line_file.hpp"
#include "workflow/journal/read_headings.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// A journal as it was found: its lines, and what each says.
struct Source {
  std::string path{};
  FileEnd file{};
  std::vector<Heading> headings{};
};

struct Line {
  const Heading* heading;
  std::string_view text;
  std::string time{};  // never before that of an earlier record of its writer, whatever the clock said
};

Diagnostic refused(const std::string& path, const std::string& why, const std::string& fix) {
  return {.message = path + " " + why, .fix = fix, .file = path, .code = codes::journal_not_merged};
}

Result<std::string> file_of(const std::string& source) {
  std::error_code error;
  const fs::path path =
      fs::is_directory(source, error) ? fs::path(source) / ".cudadent" / "records.jsonl" : fs::path(source);
  if (fs::is_symlink(path, error) || fs::is_symlink(path.parent_path(), error))
    return refused(path.string(), "is a symbolic link: records are not read through one", "name the file itself");
  if (!fs::is_regular_file(path, error))
    return refused(path.string(), "is no journal", "name a project's directory or its .cudadent/records.jsonl");
  return path.string();
}

Result<Source> read_source(const std::string& path, MergeReport& report) {
  auto file = read_from(path, 0);
  if (!file) return file.error();
  Source source{.path = path, .file = std::move(*file)};
  HeadingsRead read = read_headings(source.file);
  const int damaged = read.damaged + (source.file.torn_end ? 1 : 0);
  if (damaged > 0) report.left_out.push_back(fmt::format("{}: {} lines do not read", printable(path), damaged));
  // Nobody's own here: whether chains are whole is asked of the result.
  static_cast<void>(check_chains(read.headings, "", std::nullopt));
  for (Heading& heading : read.headings) {
    if (is_usable(heading)) {
      source.headings.push_back(std::move(heading));
    } else {
      report.left_out.push_back(printable(fmt::format("{}: record {} ({}) is {}: {}", path, heading.id, heading.verdict,
                                                      name_of(heading.standing), heading.standing_why)));
    }
  }
  return source;
}

std::set<std::string> projects_in(const Source& source) {
  std::set<std::string> names;
  for (const Heading& heading : source.headings) names.insert(heading.project);
  return names;
}

// A journal of this project names it at least once: by its own name, or by one that records here have.
Result<Done> check_project(const Source& source, std::set<std::string>& known) {
  const std::set<std::string> names = projects_in(source);
  const bool ours = known.empty() || names.empty() ||
                    std::any_of(names.begin(), names.end(), [&](const auto& name) { return known.contains(name); });
  if (!ours) {
    return refused(source.path,
                   printable(fmt::format("is a journal of '{}', not of '{}'", *names.begin(), *known.begin())),
                   "merge journals of one project");
  }
  known.insert(names.begin(), names.end());
  return Done{};
}

// By content, each once.
std::vector<Line> union_of(const std::vector<Source>& sources, MergeReport& report) {
  std::vector<Line> lines;
  std::set<std::string_view> seen;
  for (const Source& source : sources) {
    for (const Heading& heading : source.headings) {
      if (!seen.insert(heading.sha256).second) {
        ++report.duplicates;
        continue;
      }
      lines.push_back(
          {.heading = &heading, .text = std::string_view(source.file.text).substr(heading.offset, heading.length)});
    }
  }
  return lines;
}

bool before_in_chain(const Line& a, const Line& b) {
  const auto key = [](const Line& line) {
    const Heading& heading = *line.heading;
    const Chain chain = heading.chain.value_or(Chain{});
    return std::tuple(chain.writer, chain.sequence, chain.sequence == 0 ? heading.time : "", heading.sha256);
  };
  return key(a) < key(b);
}

void put_in_order(std::vector<Line>& lines) {
  std::sort(lines.begin(), lines.end(), before_in_chain);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i].time = lines[i].heading->time;
    if (i == 0 || !lines[i].heading->chain || !lines[i - 1].heading->chain) continue;
    if (lines[i].heading->chain->writer == lines[i - 1].heading->chain->writer)
      lines[i].time = std::max(lines[i].time, lines[i - 1].time);
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    const bool a_chained = a.heading->chain.has_value(), b_chained = b.heading->chain.has_value();
    return std::tie(a_chained, a.time) < std::tie(b_chained, b.time);
  });
}

// ---- contradictions -----------------------------------------------------------------------------------------------

void name_forks(const std::vector<Line>& lines, MergeReport& report) {
  std::map<std::pair<std::string, std::uint64_t>, const Heading*> places;
  for (const Line& line : lines) {
    if (!line.heading->chain) continue;
    const auto& [writer, sequence, previous] = *line.heading->chain;
    const auto [place, is_new] = places.emplace(std::pair(writer, sequence), line.heading);
    if (is_new) continue;
    report.conflicts.push_back(printable(fmt::format("records {} and {} both claim place {} of writer {}",
                                                     place->second->id, line.heading->id, sequence, writer)));
  }
}

void name_contrary_decisions(const std::vector<Line>& lines, MergeReport& report) {
  struct Decided {
    std::string decision, id;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Decided> decisions;
  for (const Line& line : lines) {
    if (line.heading->kind != IterationRecord::kind) continue;
    const auto record = parse_record(std::string(line.text));
    const auto* iteration = record ? record->as<IterationRecord>() : nullptr;
    if (iteration == nullptr || iteration->candidate.empty() || iteration->decision.empty()) continue;
    const auto [earlier, is_new] = decisions.emplace(std::tuple(record->run, iteration->parent, iteration->candidate),
                                                     Decided{.decision = iteration->decision, .id = record->id});
    if (is_new || earlier->second.decision == iteration->decision) continue;
    report.conflicts.push_back(
        printable(fmt::format("run {}: candidate {} was decided twice: '{}' by record {}, '{}' by record {}",
                              record->run, iteration->candidate.substr(0, 12), earlier->second.decision,
                              earlier->second.id, iteration->decision, record->id)));
  }
}

std::string text_of(const std::vector<Line>& lines) {
  std::size_t bytes = 0;
  for (const Line& line : lines) bytes += line.text.size() + 1;
  std::string text;
  text.reserve(bytes);
  for (const Line& line : lines) text.append(line.text).append("\n");
  return text;
}

}  // namespace

Result<MergeReport> merge_journals(const std::string& project_directory, const std::string& project_name,
                                   const std::vector<std::string>& sources) {
  MergeReport report{.journals = sources.size()};
  const Journal journal(project_directory);
  std::vector<std::string> paths;
  for (const std::string& source : sources) {
    auto path = file_of(source);
    if (!path) return path.error();
    paths.push_back(std::move(*path));
  }
  const auto locked = LockedLines::open(journal.path());
  if (!locked) return locked.error();
  JournalState state;
  if (const auto own = journal.verified_headings(&state); !own) return own.error();
  if (!state.problems.empty()) {
    return refused(journal.path(), "does not hold itself: " + state.problems.front(),
                   "cudadent journal --check; merge into another directory");
  }
  std::set<std::string> known;
  if (!project_name.empty()) known.insert(project_name);
  std::vector<Source> all;
  paths.insert(paths.begin(), journal.path());
  for (const std::string& path : paths) {
    auto source = read_source(path, report);
    if (!source) return source.error();
    const bool is_own = all.empty();
    if (is_own) known.merge(projects_in(*source));
    if (const auto checked = check_project(*source, known); !checked) return checked.error();
    all.push_back(std::move(*source));
  }
  std::vector<Line> lines = union_of(all, report);
  put_in_order(lines);
  name_forks(lines, report);
  name_contrary_decisions(lines, report);
  report.records = lines.size();
  report.added = lines.size() - all.front().headings.size();
  if (const auto written = locked->replace(text_of(lines)); !written) return written.error();
  if (const auto result = journal.verified_headings(&report.state); !result) return result.error();
  return report;
}

}  // namespace flashmoe::workflow
