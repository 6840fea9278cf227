#include "workflow/first_light/bundle.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* reserve_name = ".reserve";
constexpr const char* lock_name = ".lock";
constexpr std::size_t reserve_bytes = std::size_t{512} << 10;
constexpr const char* partial_suffix = ".partial";

Diagnostic not_written(const std::string& path, int error) {
  return {.message = fmt::format("{} cannot be written: {}", path, std::strerror(error)),
          .fix = "free some space, or put the bundle elsewhere: --bundle <directory>",
          .code = codes::environment_disk};
}

// To the disk, not only to the cache: the machine may be gone in a minute.
Result<Done> write_through(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return not_written(path, errno);
  int error = 0;
  for (std::size_t at = 0; at < text.size() && error == 0;) {
    const ssize_t count = ::write(file, text.data() + at, text.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) error = count < 0 ? errno : ENOSPC;
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0) return Done{};
  ::unlink(path.c_str());
  return not_written(path, error);
}

bool is_listed(const fs::path& file) {
  const std::string name = file.filename().string();
  return name != manifest_name && name != reserve_name && name != lock_name && !name.ends_with(partial_suffix);
}

// Names relative to the directory, sorted.
std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    std::error_code ignored;
    // Links too: they are never listed, and so are told.
    if ((entry.is_regular_file(ignored) || entry.is_symlink(ignored)) && is_listed(entry.path()))
      names.push_back(entry.path().lexically_relative(directory).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<Bundle> Bundle::open(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return not_written(directory, error.value());
  Bundle bundle(fs::absolute(directory).lexically_normal().string());
  const int lock = ::open(bundle.path(lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return not_written(bundle.path(lock_name), errno);
  bundle.lock_ = std::shared_ptr<const int>(new int(lock), [](const int* held) {
    ::close(*held);
    delete held;
  });
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0)
    return Diagnostic{.message = "another first light writes to " + bundle.directory(),
                      .fix = "wait for it, or give another --bundle",
                      .code = codes::usage_bundle};
  // Bytes that no file system can leave out.
  std::string reserve(reserve_bytes, '\0');
  for (std::size_t i = 0; i < reserve.size(); ++i) reserve[i] = static_cast<char>((i * 2654435761U) >> 13);
  if (auto kept = write_through(bundle.path(reserve_name), reserve); !kept) return kept.error();
  return bundle;
}

Result<Done> Bundle::write(const std::string& name, const std::string& text) const {
  const std::string last = path(name);
  const std::string partial = last + partial_suffix;
  std::error_code ignored;
  fs::create_directories(fs::path(last).parent_path(), ignored);
  if (auto written = write_through(partial, text); !written) return written;
  if (::rename(partial.c_str(), last.c_str()) != 0) return not_written(last, errno);
  return Done{};
}

void Bundle::use_reserve() const {
  ::unlink(path(reserve_name).c_str());
}

Result<std::string> Bundle::seal() const {
  use_reserve();
  std::string list;
  for (const std::string& name : files_in(directory_)) {
    if (fs::is_symlink(path(name))) continue;
    const auto hash = sha256_of_file(path(name));
    if (!hash) return hash.error();
    list += *hash + "  " + name + "\n";  // as sha256sum -c reads it
  }
  if (auto written = write(manifest_name, list); !written) return written.error();
  return sha256_hex(list);
}

Result<BundleCheck> verify_bundle(const std::string& directory) {
  const auto list = whole_file(directory + "/" + manifest_name);
  if (!list)
    return Diagnostic{
        .message = fmt::format("{} has no {}: it is no bundle, or was never sealed", directory, manifest_name),
        .fix = "give the directory that cudadent first-light printed",
        .code = codes::usage_bundle};
  BundleCheck check{.sha256 = sha256_hex(*list)};
  std::map<std::string, std::string> listed;
  std::istringstream lines(*list);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::size_t hash_length = 64;
    const bool whole = line.size() > hash_length + 2 && line.compare(hash_length, 2, "  ") == 0;
    const std::string name = whole ? line.substr(hash_length + 2) : "";
    const fs::path inside = fs::path(name).lexically_normal();
    if (!whole || inside.is_absolute() || inside.empty() || *inside.begin() == "..")
      check.problems.push_back(fmt::format("{}: \"{}\" is no line of it", manifest_name, line));
    else
      listed.emplace(name, line.substr(0, hash_length));
  }
  for (const auto& [name, hash] : listed) {
    std::error_code ignored;
    const std::string file = (fs::path(directory) / name).string();
    const auto now = sha256_of_file(file);
    if (fs::is_symlink(file, ignored))
      check.problems.push_back(name + ": a link, not a file");
    else if (!now)
      check.problems.push_back(name + ": not there");
    else if (*now != hash)
      check.problems.push_back(name + ": changed");
    else
      ++check.files;
  }
  for (const std::string& name : files_in(directory))
    if (!listed.contains(name)) check.problems.push_back(name + ": not listed");
  const Json results = parse_json_file(directory + "/" + results_name);
  if (!listed.contains(results_name) || !results.is_object()) {
    check.problems.push_back(std::string(results_name) + ": missing, or no JSON");
    return check;
  }
  check.rehearsal = results.value("rehearsal", false);
  for (const Json& step : results.value("steps", Json::array())) {
    const std::string state = step.value("state", "");
    if (state != "done" && state != "degraded") continue;
    if (const std::string file = step.value("file", ""); !listed.contains(file))
      check.problems.push_back(
          fmt::format("{}: step {} was {}, and its file is not listed", file, step.value("name", "?"), state));
  }
  return check;
}

}  // namespace flashmoe::workflow
