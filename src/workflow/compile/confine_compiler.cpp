#include "workflow/compile/confine_compiler.hpp"

#include "workflow/compile/compiler.hpp"
#include "workflow/project/fingerprint.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// A program's own tree: <prefix>/bin/g++ reads <prefix>/lib.
void add_tree_of(const std::string& program, std::vector<std::string>& readable) {
  const std::string found = find_program({program});
  if (found.empty()) return;
  std::error_code error;
  for (const fs::path& path : {fs::path(found), fs::canonical(found, error)}) {
    if (!path.empty()) readable.push_back(path.parent_path().parent_path().string());
  }
}

}  // namespace

void confine_compiler(Command& command, const Project& project, const fs::path& scratch) {
  command.short_environment = true;
  command.environment.emplace_back("LC_ALL=C");
  // A compiler cache of the user's is not ours to fill; the project has its own.
  command.environment.emplace_back("CCACHE_DISABLE=1");
  Confinement may;
  may.readable = {project.directory};
  for (const std::string& directory : project.include_directories) {
    may.readable.push_back((fs::path(project.directory) / directory).string());
  }
  for (const std::string& source : declared_sources(project)) {
    may.readable.push_back((fs::path(project.directory) / source).parent_path().string());
  }
  for (const std::string& directory : own_include_directories()) may.readable.push_back(directory);
  for (const std::string& word : command.argv) {
    if (word.starts_with('-')) break;  // "ccache g++" are two programs
    add_tree_of(word, may.readable);
  }
  if (!scratch.empty()) {
    may.readable.push_back(scratch.string());
    may.writable.push_back(scratch.string());
    command.environment.push_back("TMPDIR=" + scratch.string());
  }
  command.confinement = std::move(may);
}

}  // namespace flashmoe::workflow
