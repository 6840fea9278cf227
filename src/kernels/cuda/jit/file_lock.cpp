#include "kernels/cuda/jit/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

namespace flashmoe::cuda {
namespace {

constexpr std::chrono::milliseconds between_attempts{5};

// The holder removes the file before it lets go, so a lock can come from a file that is no longer the one others open.
bool is_still_at(int descriptor, const std::string& path) {
  struct stat ours {
  }, there{};
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

}  // namespace

FileLock::FileLock(std::string path, std::chrono::milliseconds patience) : path_(std::move(path)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (try_once() == Attempt::busy && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(between_attempts);
}

FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

FileLock::Attempt FileLock::try_once() {
  const int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (descriptor < 0) return Attempt::impossible;
  const bool is_locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  const bool is_busy = !is_locked && (errno == EWOULDBLOCK || errno == EINTR);
  if (is_locked && is_still_at(descriptor, path_)) {
    descriptor_ = descriptor;
    return Attempt::held;
  }
  ::close(descriptor);
  return is_locked || is_busy ? Attempt::busy : Attempt::impossible;
}

}  // namespace flashmoe::cuda
