#include "workflow/journal/writer.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/kernel_files.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
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

// As journals of earlier versions have it: one for all journals of a user.
std::string writer_everywhere() {
  return sha256_hex(machine_identity() + " " + std::to_string(::getuid())).substr(0, id_digits);
}

std::string writer_here(const std::string& journal) {
  return sha256_hex(machine_identity() + " " + std::to_string(::getuid()) + " " + journal).substr(0, id_digits);
}

Json stored_memory(const std::string& journal) {
  const std::string path = state_file(journal, ".json");
  const auto text = path.empty() ? std::nullopt : whole_file(path);
  const Json json = bounded_json(text.value_or(""));
  if (text_in(json, "journal") != journal) return {};
  const std::string writer = text_in(json, "writer");
  return writer == writer_here(journal) || writer == writer_everywhere() ? json : Json();
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

std::string state_file(const std::string& journal, const std::string& ending) {
  // A worktree of a comparison goes with its journal, and nothing is to be missed then.
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
  return (directory / "cudadent" / "journals" / (sha256_hex(journal).substr(0, 16) + ending)).string();
}

bool replace_file(const std::string& path, const std::string& content) {
  if (path.empty()) return false;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string next = path + "." + std::to_string(::getpid());
  {
    std::ofstream file(next, std::ios::binary);
    file << content;
    if (!file.flush()) return false;
  }
  fs::rename(next, path, error);
  return !error;
}

std::string writer_of(const std::string& journal) {
  const std::string known = text_in(stored_memory(journal), "writer");
  return known.empty() ? writer_here(journal) : known;
}

std::optional<ChainMemory> remembered(const std::string& journal) {
  const Json json = stored_memory(journal);
  const Json* written = field_in(json, "written");
  const Json* announced = field_in(json, "announced");
  if (written == nullptr || announced == nullptr) return std::nullopt;
  return ChainMemory{.written = end_from(*written), .announced = end_from(*announced)};
}

void remember(const std::string& journal, const ChainMemory& memory) {
  const Json json = {{"journal", journal},
                     {"writer", writer_of(journal)},
                     {"written", to_json(memory.written)},
                     {"announced", to_json(memory.announced)}};
  replace_file(state_file(journal, ".json"), one_line(json) + "\n");
}

}  // namespace flashmoe::workflow
