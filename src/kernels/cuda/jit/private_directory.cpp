#include "kernels/cuda/jit/private_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace flashmoe::cuda {
namespace {

// Root can change anything of ours in any case.
bool is_trusted(uid_t owner) {
  return owner == ::geteuid() || owner == 0;
}

bool only_owner_writes(const struct stat& about) {
  return (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_missing(const Descriptor& opened) {
  return !opened.is_open() && errno == ENOENT;
}

// One step down, made if it is missing. Opened for its name only: a directory on the way may be closed to readers.
Descriptor enter(const Descriptor& above, const std::string& name, std::string& why_not_trusted) {
  constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  Descriptor below(::openat(above.get(), name.c_str(), flags | O_NOFOLLOW));
  if (is_missing(below)) {
    ::mkdirat(above.get(), name.c_str(), 0700);
    below = Descriptor(::openat(above.get(), name.c_str(), flags | O_NOFOLLOW));
  }
  struct stat about {};
  if (below.is_open() || ::fstatat(above.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return below;
  if (!S_ISLNK(about.st_mode)) return below;
  // A link of our own leads where we want, wherever that is.
  if (is_trusted(about.st_uid)) return Descriptor(::openat(above.get(), name.c_str(), flags));
  why_not_trusted = name + " in it is a symbolic link of user " + std::to_string(about.st_uid);
  return below;
}

}  // namespace

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

int Descriptor::release() {
  return std::exchange(descriptor_, -1);
}

PrivateDirectory::PrivateDirectory(const std::string& path) {
  if (path.empty()) return;
  Descriptor at(::open(path.front() == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (std::string_view rest = path; at.is_open() && !rest.empty();) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    if (end > 0) at = enter(at, std::string(rest.substr(0, end)), why_not_trusted_);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  struct stat about {};
  if (!at.is_open() || ::fstat(at.get(), &about) != 0) return;
  if (!is_trusted(about.st_uid)) {
    why_not_trusted_ = "it belongs to user " + std::to_string(about.st_uid);
  } else if (!only_owner_writes(about)) {
    why_not_trusted_ = "others than its owner may write to it";
  } else {
    directory_ = std::move(at);
  }
}

Descriptor PrivateDirectory::open(const std::string& name, int flags, unsigned mode) const {
  return Descriptor(::openat(directory_.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
}

Descriptor PrivateDirectory::open_own(const std::string& name) const {
  // A pipe in the file's place must not keep us waiting for its writer.
  Descriptor file = open(name, O_RDONLY | O_NONBLOCK);
  struct stat about {};
  const bool is_own = file.is_open() && ::fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) &&
                      is_trusted(about.st_uid) && only_owner_writes(about);
  return is_own ? std::move(file) : Descriptor();
}

bool PrivateDirectory::holds(const std::string& name, int descriptor) const {
  struct stat ours {
  }, there{};
  return ::fstat(descriptor, &ours) == 0 &&
         ::fstatat(directory_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

bool PrivateDirectory::rename(const std::string& from, const std::string& to) const {
  return ::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) == 0;
}

void PrivateDirectory::remove(const std::string& name) const {
  ::unlinkat(directory_.get(), name.c_str(), 0);
}

// Not std::filesystem: its iterators end the process when memory runs out.
std::vector<std::string> PrivateDirectory::names() const {
  const auto close = [](DIR* listing) { ::closedir(listing); };
  const std::unique_ptr<DIR, decltype(close)> listing(::fdopendir(open(".", O_RDONLY | O_DIRECTORY).release()), close);
  std::vector<std::string> names;
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing.get())) names.emplace_back(entry->d_name);
  return names;
}

}  // namespace flashmoe::cuda
