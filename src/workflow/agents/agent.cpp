#include "workflow/agents/agent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/text.hpp"
#include "support/whole_file.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/optimize/optimize.hpp"
#include "workflow/output/loop_json.hpp"
#include "workflow/project/fingerprint.hpp"
#include "workflow/trial/allowed.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t most_bytes = 1 << 20;  // of a file
constexpr std::size_t most_files = 64;

Diagnostic unreadable(const std::string& message, const std::string& fix) {
  return {.message = message, .fix = fix, .code = codes::proposal_unreadable};
}

// An agent's words go into records, which others read: bounded, and without control characters.
std::string cut_short(const std::string& words) {
  constexpr std::size_t most = 500;
  return printable(words.substr(0, most)) + (words.size() > most ? "..." : "");
}

// The current version as plain files: no repository, no hooks, no configuration.
class Export {
 public:
  static Result<Done> make(const Project& project, Export& made) {
    if (made.scratch_.path().empty()) return unreadable("no temporary directory could be made", "check TMPDIR");
    const auto top = run_git(project.directory, {"rev-parse", "--show-toplevel"});
    if (!top) return top.error();
    const auto prefix = run_git(project.directory, {"rev-parse", "--show-prefix"});
    if (!prefix) return prefix.error();
    made.prefix_ = *prefix;
    const auto packed = run_git(*top, {"archive", "--format=tar", "--output", made.tar().string(), "HEAD"});
    if (!packed) return packed.error();
    return Done{};
  }

  // Another copy of all files.
  [[nodiscard]] Result<fs::path> unpacked(const char* name) const {
    const fs::path to = scratch_.path() / name;
    std::error_code failed;
    fs::create_directories(to, failed);
    const auto done = run_process({.argv = {"tar", "-xf", tar().string(), "-C", to.string()}});
    if (failed || !done || !done->ok())
      return unreadable("the version could not be exported", "is there room in TMPDIR?");
    return to;
  }
  [[nodiscard]] const fs::path& scratch() const { return scratch_.path(); }
  [[nodiscard]] const fs::path& prefix() const { return prefix_; }

 private:
  [[nodiscard]] fs::path tar() const { return scratch_.path() / "version.tar"; }
  TemporaryDirectory scratch_{};
  fs::path prefix_{};  // of the project in the repository
};

std::string request_of(const LoopState& state, const AgentOptions& options) {
  Json tunables = Json::array();
  for (const Tunable& tunable : state.project.tunables) {
    tunables.push_back({{"name", tunable.name},
                        {"choices", tunable.choices},
                        {"value", state.project.point.at(tunable.name)},
                        {"phase", tunable.phase}});
  }
  Json launches = Json::array();
  for (const LaunchProfile& launch : state.profile.launches) {
    launches.push_back(
        {{"kernel", launch.report.name}, {"share", launch.share}, {"counters", counters_of(launch.report)}});
  }
  const Json request = {{"schema_version", 1},
                        {"run", state.report.run},
                        {"iteration", state.report.iterations.size() + 1},
                        {"project", state.project.name},
                        {"description", state.project.description},
                        {"device", state.report.device},
                        {"bottlenecks", list_of(state.advice)},
                        {"launches", launches},
                        {"tunables", tunables},
                        {"tried", list_of(state.report.iterations)},
                        {"may_not_change", judging_files(state.project)},
                        {"seconds", options.limit.count()}};
  return request.dump() + "\n";
}

// What differs between two copies of the files, by paths in the project.
Result<FileChanges> changes_between(const fs::path& before, const fs::path& after, const fs::path& prefix) {
  FileChanges changes;
  std::error_code ignored;
  const auto in_project = [&](const fs::path& file) {
    return prefix.empty() ? file.string() : file.lexically_relative(prefix).string();
  };
  for (const auto& entry : fs::recursive_directory_iterator(after, ignored)) {
    const fs::path file = entry.path().lexically_relative(after);
    const fs::file_status status = entry.symlink_status(ignored);
    if (fs::is_directory(status)) continue;
    const fs::path original = before / file;
    if (fs::is_symlink(status) && fs::is_symlink(original) &&
        fs::read_symlink(entry.path(), ignored) == fs::read_symlink(original, ignored))
      continue;
    if (!fs::is_regular_file(status) || fs::is_symlink(original))
      return unreadable(fmt::format("'{}' is no plain file", in_project(file)), "propose plain files only");
    if (entry.file_size(ignored) > most_bytes)
      return unreadable(fmt::format("'{}' is larger than 1 MiB", in_project(file)), "propose sources only");
    const auto content = whole_file(entry.path().string());
    if (content == whole_file(original.string())) continue;
    if (!content) return unreadable(fmt::format("'{}' cannot be read", in_project(file)), "let its owner read it");
    changes[in_project(file)] = content;
  }
  for (const auto& entry : fs::recursive_directory_iterator(before, ignored)) {
    const fs::path file = entry.path().lexically_relative(before);
    if (!entry.is_directory(ignored) && !fs::exists(fs::symlink_status(after / file, ignored)))
      changes[in_project(file)] = std::nullopt;
  }
  if (changes.size() > most_files)
    return unreadable(fmt::format("{} files were changed", changes.size()),
                      "remove what a build left, or print a patch");
  return changes;
}

// The user's files, branches and records, and the version that the loop works on: an agent that reached for them is not
// believed, whatever it proposes.
class Watch {
 public:
  Watch(const Project& version, const std::string& directory) : version_(version), directory_(directory) {
    if (!directory_.empty()) before_ = look();
  }
  // What is not as it was; empty: all of it is.
  [[nodiscard]] std::string broken() const {
    if (directory_.empty()) return "";
    const Seen now = look();
    const std::vector<std::string> users = changes(before_.files, now.files);
    if (!users.empty()) return users.front();
    const std::vector<std::string> loops = changes(before_.version, now.version);
    if (!loops.empty()) return loops.front() + " in the version that is worked on";
    if (now.refs != before_.refs) return "a branch or HEAD was moved";
    return now.journal != before_.journal ? "the journal was written to" : "";
  }

 private:
  struct Seen {
    Fingerprint files{}, version{};
    std::string refs{};
    std::optional<std::string> journal{};
  };
  [[nodiscard]] Seen look() const {
    Project users;
    users.directory = directory_;
    const auto refs = run_git(directory_, {"for-each-ref", "refs/heads", "refs/tags"});
    const auto head = run_git(directory_, {"rev-parse", "HEAD"});
    return {.files = fingerprint_of(users),
            .version = fingerprint_of(version_),
            .refs = (refs ? *refs : "") + " " + (head ? *head : ""),
            .journal = whole_file(Journal(directory_).path())};
  }
  const Project& version_;
  std::string directory_;
  Seen before_{};
};

struct Said {
  std::string hypothesis{}, counter{}, patch{};
  std::optional<double> to{};
  bool done = false;
};

// A JSON object, a patch, or words that are of no meaning here.
Result<Said> read_answer(const std::string& text) {
  Said said;
  if (!text.starts_with('{')) {
    const std::size_t begin = text.starts_with("--- ") ? 0 : text.find("diff --git ");
    if (begin != std::string::npos) said.patch = text.substr(begin) + "\n";
    return said;
  }
  const Json answer = Json::parse(text, nullptr, false);
  const auto wrong = [] {
    return unreadable(
        "the agent's answer is not the JSON that docs/agents.md describes",
        R"({"hypothesis": "...", "predicted": {"name": "instructions", "to": 1000}, "patch": "diff ..."})");
  };
  if (!answer.is_object()) return wrong();
  try {
    said.hypothesis = answer.value("hypothesis", "");
    said.patch = answer.value("patch", "");
    said.done = answer.value("done", false);
    if (const auto predicted = answer.find("predicted"); predicted != answer.end() && !predicted->is_null()) {
      said.counter = predicted->at("name").get<std::string>();
      said.to = predicted->at("to").get<double>();
    }
  } catch (const Json::exception&) {
    return wrong();
  }
  if (!said.counter.empty() && find_counter_name(said.counter) == nullptr)
    return unreadable(fmt::format("no counter is called '{}'", cut_short(said.counter)), "cudadent advise --counters");
  return said;
}

Result<Done> apply(const Export& files, const fs::path& to, const std::string& patch) {
  const fs::path file = files.scratch() / "proposal.patch";
  std::ofstream(file, std::ios::binary) << patch;
  // Outside of any repository: names are those of the project's directory, and none leads out of it.
  const auto applied = run_git((to / files.prefix()).string(), {"apply", "--whitespace=nowarn", file.string()},
                               {"GIT_CEILING_DIRECTORIES=" + files.scratch().string()});
  if (!applied)
    return unreadable("the patch does not apply: " + cut_short(last_line(applied.error().message)),
                      "diff against the files as given");
  return Done{};
}

Result<std::optional<Proposal>> propose(const LoopState& state, const AgentOptions& options) {
  Export files;
  if (const auto made = Export::make(state.project, files); !made) return made.error();
  const auto before = files.unpacked("before");
  if (!before) return before.error();
  const auto given = files.unpacked("version");
  if (!given) return given.error();
  const fs::path request = files.scratch() / "request.json";
  std::ofstream(request) << request_of(state, options);

  const Watch watch(state.project, options.directory);
  const auto ran = run_process({.argv = {"sh", "-c", "exec <\"$CUDADENT_REQUEST\"\n" + options.command},
                                .directory = (*given / files.prefix()).string(),
                                .environment = {"CUDADENT_REQUEST=" + request.string()},
                                .limit = options.limit});
  if (!ran) return ran.error();
  if (const std::string broken = watch.broken(); !broken.empty()) {
    return unreadable("the agent wrote where it may not: " + printable(broken),
                      "see what it did (git status, cudadent journal --check) before it is asked again");
  }
  if (!ran->ok()) {
    return unreadable(fmt::format("the agent failed: {}{}{}", ran->describe(), ran->err.empty() ? "" : ": ",
                                  cut_short(last_line(ran->err))),
                      "run it by hand with such a request: docs/agents.md");
  }
  auto said = read_answer(trimmed(ran->out));
  if (!said) return said.error();
  if (said->done) return std::optional<Proposal>{};
  fs::path after = *given;
  if (!said->patch.empty()) {
    const auto patched = files.unpacked("patched");
    if (!patched) return patched.error();
    if (const auto applied = apply(files, *patched, said->patch); !applied) return applied.error();
    after = *patched;
  }
  auto changes = changes_between(*before, after, files.prefix());
  if (!changes) return changes.error();
  if (changes->empty()) return std::optional<Proposal>{};
  Proposal proposal{.proposer = options.command,
                    .hypothesis = said->hypothesis.empty() ? "the agent does not say why" : cut_short(said->hypothesis),
                    .files = std::move(*changes)};
  if (!said->counter.empty())
    proposal.predicted =
        CounterChange{.name = said->counter, .from = counter_of(state.profile, said->counter), .to = *said->to};
  return std::optional(std::move(proposal));
}

}  // namespace

Propose propose_by_agent(AgentOptions options) {
  return [options = std::move(options)](const LoopState& state) { return propose(state, options); };
}

}  // namespace flashmoe::workflow
