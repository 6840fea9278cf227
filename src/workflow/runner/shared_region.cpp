#include "workflow/runner/shared_region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace flashmoe::workflow {

SharedRegion::~SharedRegion() {
  if (data_) munmap(data_, reserved_bytes);
  if (fd_ >= 0) close(fd_);
}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<SharedRegion> SharedRegion::make(const char* name, bool others_only_read) {
  SharedRegion region;
  const auto failed = [](const char* what) {
    return Diagnostic{.message = fmt::format("no shared memory for tensors: {}: {}", what, std::strerror(errno)),
                      .fix = "raise the limit of address space (ulimit -v unlimited) or free memory"};
  };
  region.fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (region.fd_ < 0) return failed("memfd_create");
  // 0, 1 and 2 are the child's standard streams.
  if (region.fd_ < 3) {
    const int moved = fcntl(region.fd_, F_DUPFD_CLOEXEC, 3);
    close(std::exchange(region.fd_, moved));
    if (moved < 0) return failed("fcntl");
  }
  void* data = mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, region.fd_, 0);
  if (data == MAP_FAILED) return failed("mmap");
  region.data_ = static_cast<std::byte*>(data);
  // Where the kernel of this machine has no such seal, the hashes of the inputs still tell.
  if (others_only_read) static_cast<void>(fcntl(region.fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
  // Who has the descriptor could make it shorter, and reading it would then end this process; or seal it against
  // growing.
  static_cast<void>(fcntl(region.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL));
  return region;
}

Result<Done> SharedRegion::grow(std::size_t bytes) {
  if (bytes <= size_) return Done{};
  if (bytes > reserved_bytes) {
    return Diagnostic{.message = fmt::format("the workload needs {} bytes, more than {}", bytes, reserved_bytes),
                      .fix = "make the workload smaller"};
  }
  // Allocated now: a page that cannot be had later would be a SIGBUS in the middle of a run.
  const int error = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    return Diagnostic{.message = fmt::format("no memory for {} bytes of tensors: {}", bytes, std::strerror(error)),
                      .fix = "free memory, or make the workload smaller"};
  }
  size_ = bytes;
  return Done{};
}

}  // namespace flashmoe::workflow
