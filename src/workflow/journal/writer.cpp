#include "workflow/journal/writer.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/kernel_files.hpp"
#include "support/sha256.hpp"
#include "workflow/journal/facts.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

std::string machine_identity() {
  std::ifstream file("/etc/machine-id");
  std::string identity;
  if (std::getline(file, identity) && !identity.empty()) return identity;
  return machine_facts().host.value_or("");
}

// Empty: there is no place. A worktree of a comparison goes with its journal, and nothing is to be missed then.
fs::path memory_file(const std::string& journal) {
  if (journal.find("/.cudadent/worktrees/") != std::string::npos) return {};
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path directory;
  if (state != nullptr && *state == '/') {
    directory = state;
  } else if (home != nullptr && *home == '/') {
    directory = fs::path(home) / ".local" / "state";
  } else {
    return {};
  }
  return directory / "cudadent" / "journals" / (sha256_hex(journal).substr(0, 16) + ".json");
}

ChainEnd end_from(const Json& json) {
  const Json* sequence = field_in(json, "sequence");
  if (sequence == nullptr || !sequence->is_number_unsigned()) return {};
  return {.sequence = sequence->get<std::uint64_t>(), .sha256 = text_in(json, "sha256")};
}

Json to_json(const ChainEnd& end) {
  return {{"sequence", end.sequence}, {"sha256", end.sha256}};
}

}  // namespace

const std::string& this_writer() {
  static const std::string writer =
      sha256_hex(machine_identity() + " " + std::to_string(::getuid())).substr(0, id_digits);
  return writer;
}

std::optional<ChainMemory> remembered(const std::string& journal) {
  std::ifstream file(memory_file(journal));
  std::stringstream text;
  text << file.rdbuf();
  const Json json = bounded_json(text.str());
  if (text_in(json, "journal") != journal || text_in(json, "writer") != this_writer()) return std::nullopt;
  const Json* written = field_in(json, "written");
  const Json* announced = field_in(json, "announced");
  if (written == nullptr || announced == nullptr) return std::nullopt;
  return ChainMemory{.written = end_from(*written), .announced = end_from(*announced)};
}

void remember(const std::string& journal, const ChainMemory& memory) {
  const fs::path path = memory_file(journal);
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const Json json = {{"journal", journal},
                     {"writer", this_writer()},
                     {"written", to_json(memory.written)},
                     {"announced", to_json(memory.announced)}};
  // Whole or not at all: a reader sees the old one or the new one.
  const fs::path next = path.string() + "." + std::to_string(::getpid());
  {
    std::ofstream file(next);
    file << one_line(json) << "\n";
    if (!file.flush()) return;
  }
  fs::rename(next, path, error);
}

}  // namespace flashmoe::workflow
