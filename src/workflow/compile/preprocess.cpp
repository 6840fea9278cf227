#include "workflow/compile/preprocess.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "support/file_stamp.hpp"
#include "workflow/compile/compiler.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

struct Stamp {
  std::string path;
  FileStamp state;
  bool operator==(const Stamp&) const = default;
};

// Kernels move a file's clock on in steps of up to 10 ms: two writes within one step look like one.
constexpr std::uint64_t surely_past_ns = 50'000'000;

std::optional<Stamp> stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{path, stamp_from(status)};
}

struct Remembered {
  std::string question;
  Finished answer;
  std::vector<Stamp> stamps;
};

struct Memory {
  static constexpr std::size_t kMost = 16;  // a few megabytes each
  std::mutex mutex;
  std::deque<Remembered> answers;  // the newest first
};

Memory& memory() {
  static Memory kept;
  return kept;
}

std::string question_of(const Command& command) {
  std::string question = command.directory + '\0';
  for (const std::string& word : command.argv) question += word + '\0';
  for (char** variable = environ; *variable != nullptr; ++variable) question += std::string(*variable) + '\0';
  return question;
}

// Nothing when one of them is gone, or changed so late that a later change might look the same.
std::optional<std::vector<Stamp>> stamps_of(const Command& command, const std::string& text, std::uint64_t began_ns) {
  std::set<std::string> paths{find_program({command.argv.front()})};
  const fs::path directory = command.directory.empty() ? fs::path(".") : fs::path(command.directory);
  for (const std::string& file : files_read(text)) {
    const fs::path path = directory / file;
    paths.insert(path.string());
    paths.insert(path.parent_path().string());
  }
  for (const std::string& word : command.argv)
    if (word.starts_with("-I") && word.size() > 2) paths.insert((directory / word.substr(2)).string());
  std::vector<Stamp> stamps;
  for (const std::string& path : paths) {
    auto stamp = stamp_of(path);
    if (!stamp || stamp->state.changed_ns + surely_past_ns > began_ns) return std::nullopt;
    stamps.push_back(std::move(*stamp));
  }
  return stamps;
}

bool is_unchanged(const Stamp& stamp) {
  return stamp_of(stamp.path) == stamp;
}

std::optional<Finished> recalled(const std::string& question) {
  Memory& kept = memory();
  const std::scoped_lock lock(kept.mutex);
  for (const Remembered& remembered : kept.answers)
    if (remembered.question == question && std::ranges::all_of(remembered.stamps, is_unchanged))
      return remembered.answer;
  return std::nullopt;
}

void remember(Remembered fresh) {
  Memory& kept = memory();
  const std::scoped_lock lock(kept.mutex);
  std::erase_if(kept.answers, [&](const Remembered& old) { return old.question == fresh.question; });
  kept.answers.push_front(std::move(fresh));
  if (kept.answers.size() > Memory::kMost) kept.answers.pop_back();
}

}  // namespace

std::vector<std::string> files_read(const std::string& preprocessed) {
  std::set<std::string, std::less<>> files;
  std::string_view text = preprocessed;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("# ")) continue;
    const auto open = line.find('"');
    const auto close = line.find('"', open + 1);
    if (open == std::string_view::npos || close == std::string_view::npos) continue;
    const std::string_view file = line.substr(open + 1, close - open - 1);
    // "<built-in>" is no file, and what ends in "//" is the directory that -g has written down.
    if (!file.empty() && file.front() != '<' && !file.ends_with("//") && !files.contains(file)) files.emplace(file);
  }
  return {files.begin(), files.end()};
}

Result<Finished> preprocess(const Command& command, const std::function<void()>& idle) {
  std::string question = question_of(command);
  if (auto known = recalled(question)) return std::move(*known);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto began_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
  auto ran = run_process(command, idle);
  if (!ran || !ran->ok()) return ran;
  if (auto stamps = stamps_of(command, ran->out, began_ns))
    remember({.question = std::move(question), .answer = *ran, .stamps = std::move(*stamps)});
  return ran;
}

}  // namespace flashmoe::workflow
