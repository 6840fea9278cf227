#include "workflow/compile/cache.hpp"

#include <fstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/compile/compiler.hpp"

namespace flashmoe::workflow {

std::filesystem::path cache_root(const Project& project, const BuildOptions& options) {
  if (!options.output_root.empty()) return absolute_path(options.output_root);
  // A version in a worktree of ours: its owner keeps what was built when the worktree is gone.
  const auto worktree = project.directory.find("/.cudadent/worktrees/");
  return std::filesystem::path(project.directory.substr(0, worktree)) / ".cudadent" / "build";
}

std::optional<std::string> cached_hash(const std::filesystem::path& product, const std::filesystem::path& note) {
  const Json json = parse_json_file(note.string());
  const auto hash = sha256_of_file(product.string());
  if (!hash || *hash != text_in(json, "content_hash")) return std::nullopt;
  return *hash;
}

void note_built(const std::filesystem::path& note, const std::string& content_hash,
                std::initializer_list<std::pair<const char*, std::string>> more) {
  Json json = {{"content_hash", content_hash}};
  for (const auto& [name, value] : more) json[name] = value;
  std::ofstream(note) << one_line(json) << "\n";
}

}  // namespace flashmoe::workflow
