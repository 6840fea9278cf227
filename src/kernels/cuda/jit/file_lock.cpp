#include "kernels/cuda/jit/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>
#include <utility>

namespace flashmoe::cuda {
namespace {

constexpr std::chrono::milliseconds between_attempts{5};

}  // namespace

FileLock::FileLock(const PrivateDirectory& directory, std::string name, std::chrono::milliseconds patience)
    : directory_(directory), name_(std::move(name)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (try_once() == Attempt::busy && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(between_attempts);
}

FileLock::~FileLock() {
  if (held_.is_open()) directory_.remove(name_);  // before it is let go
}

FileLock::Attempt FileLock::try_once() {
  Descriptor file = directory_.open(name_, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
  if (!file.is_open()) return Attempt::impossible;
  const bool is_locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  const bool is_busy = !is_locked && (errno == EWOULDBLOCK || errno == EINTR);
  // The holder removes the file before it lets go, so a lock can come from a file that is no longer the one others
  // open.
  if (is_locked && directory_.holds(name_, file.get())) {
    held_ = std::move(file);
    return Attempt::held;
  }
  return is_locked || is_busy ? Attempt::busy : Attempt::impossible;
}

}  // namespace flashmoe::cuda
