#include "workflow/journal/facts.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "support/process.hpp"

namespace flashmoe::workflow {
namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A program that answers with one machine-readable word; null when it is missing or slow.
Json answer_of(std::vector<std::string> argv) {
  const auto finished = run_process({.argv = std::move(argv), .limit = std::chrono::milliseconds(3000)});
  if (!finished || !finished->ok()) return nullptr;
  const std::string text = trimmed(finished->out);
  return text.empty() ? Json(nullptr) : Json(text);
}

// The value behind the first "key : value" of a file of the kernel.
std::string kernel_file_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) return trimmed(line.substr(colon + 1));
  }
  return "";
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json ask_machine() {
  Json facts = Json::object();
  utsname names{};
  const bool named = ::uname(&names) == 0;
  facts["host"] = named ? Json(names.nodename) : Json(nullptr);
  facts["cpu"] = text_or_null(kernel_file_value("/proc/cpuinfo", "model name"));
  facts["cores"] = std::thread::hardware_concurrency();
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  facts["memory_gib"] = static_cast<double>(pages) * static_cast<double>(page_bytes) / (1024.0 * 1024 * 1024);
  facts["kernel"] = named ? Json(std::string(names.sysname) + " " + names.release) : Json(nullptr);
  facts["compilers"] = {{"c++", answer_of({"c++", "-dumpfullversion", "-dumpversion"})},
                        {"clang++", answer_of({"clang++", "-dumpversion"})}};
  facts["git"] = answer_of({"git", "version"});
  return facts;
}

}  // namespace

const Json& machine_facts() {
  static const Json facts = ask_machine();
  return facts;
}

TreeState tree_state(const std::string& directory) {
  TreeState state;
  const Json commit = answer_of({"git", "-C", directory, "rev-parse", "--verify", "--quiet", "HEAD"});
  if (!commit.is_string()) return state;
  state.commit = commit.get<std::string>();
  state.dirty = answer_of({"git", "-C", directory, "status", "--porcelain", "--untracked-files=no"}).is_string();
  return state;
}

Json cost_of(double seconds, double machine_per_hour, double agent_per_hour) {
  const double hours = seconds / 3600;
  const double machine = hours * machine_per_hour;
  const double agent = hours * agent_per_hour;
  return {{"machine", machine}, {"agent", agent}, {"total", machine + agent}};
}

}  // namespace flashmoe::workflow
