#include "workflow/journal/facts.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <thread>

#include "support/kernel_files.hpp"
#include "support/process.hpp"

namespace flashmoe::workflow {
namespace {

std::optional<std::string> unless_empty(std::string text) {
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

// A program that answers with one machine-readable word; unset when it is missing or slow.
std::optional<std::string> answer_of(std::vector<std::string> argv) {
  const auto finished = run_process({.argv = std::move(argv), .limit = std::chrono::milliseconds(3000)});
  return finished && finished->ok() ? unless_empty(trimmed(finished->out)) : std::nullopt;
}

MachineFacts ask_machine() {
  MachineFacts facts;
  utsname names{};
  if (::uname(&names) == 0) {
    facts.host = names.nodename;
    facts.kernel = std::string(names.sysname) + " " + names.release;
  }
  facts.cpu = unless_empty(value_in_file("/proc/cpuinfo", "model name"));
  facts.cores = std::thread::hardware_concurrency();
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  facts.memory_gib = static_cast<double>(pages) * static_cast<double>(page_bytes) / (1024.0 * 1024 * 1024);
  facts.compilers = {.cxx = answer_of({"c++", "-dumpfullversion", "-dumpversion"}),
                     .clang = answer_of({"clang++", "-dumpversion"})};
  facts.git = answer_of({"git", "version"});
  return facts;
}

}  // namespace

const MachineFacts& machine_facts() {
  static const MachineFacts facts = ask_machine();
  return facts;
}

TreeState tree_state(const std::string& directory) {
  TreeState state;
  const auto commit = answer_of({"git", "-C", directory, "rev-parse", "--verify", "--quiet", "HEAD"});
  if (!commit) return state;
  state.commit = *commit;
  // Neither the user's index is refreshed nor a file monitor of theirs started.
  state.dirty = answer_of({"git", "-C", directory, "--no-optional-locks", "-c", "core.fsmonitor=false", "status",
                           "--porcelain", "--untracked-files=no"})
                    .has_value();
  return state;
}

}  // namespace flashmoe::workflow
