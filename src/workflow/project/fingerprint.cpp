#include "workflow/project/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "support/sha256.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 14> taking_part{".c",   ".cc",  ".cpp", ".cxx", ".cu", ".cuh", ".h",
                                                       ".hpp", ".inc", ".py",  ".pyc", ".so", ".pth", ".toml"};
// A project is small; somebody's home directory is not.
constexpr std::size_t most_files = 5000;

}  // namespace

std::vector<std::string> declared_sources(const Project& project) {
  std::vector<std::string> sources = project.cuda_sources;
  for (const Callable* callable : {&project.kernel, &project.reference, &project.baseline, &project.torch_baseline}) {
    if (!callable->source.empty()) sources.push_back(callable->source);
    sources.insert(sources.end(), callable->sources.begin(), callable->sources.end());
  }
  return sources;
}

Fingerprint fingerprint_of(const Project& project) {
  Fingerprint found;
  std::error_code error;
  const fs::path root(project.directory);
  for (auto entry = fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator() && found.size() < most_files; entry.increment(error)) {
    const fs::path& path = entry->path();
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      // .git, .cudadent, .venv: they do not take part, or have checks of their own.
      if (path.filename().string().starts_with('.')) entry.disable_recursion_pending();
      continue;
    }
    if (std::find(taking_part.begin(), taking_part.end(), path.extension().string()) == taking_part.end()) continue;
    const auto hash = sha256_of_file(path.string());
    found[path.lexically_relative(root).string()] = hash ? *hash : "unreadable";
  }
  for (const std::string& source : declared_sources(project)) {
    if (const auto hash = sha256_of_file((root / source).string())) {
      found[fs::path(source).lexically_normal().string()] = *hash;
    }
  }
  return found;
}

std::string sources_hash(const Project& project) {
  std::string all;
  for (const auto& [path, hash] : fingerprint_of(project)) all += hash + " " + path + "\n";
  return sha256_hex(all);
}

std::vector<std::string> changes(const Fingerprint& before, const Fingerprint& after) {
  std::vector<std::string> sentences;
  for (const auto& [path, hash] : after) {
    const auto earlier = before.find(path);
    if (earlier == before.end()) {
      sentences.push_back(path + " was not there before");
    } else if (earlier->second != hash) {
      sentences.push_back(path + " was changed");
    }
  }
  for (const auto& [path, hash] : before) {
    if (!after.contains(path)) sentences.push_back(path + " is gone");
  }
  return sentences;
}

}  // namespace flashmoe::workflow
