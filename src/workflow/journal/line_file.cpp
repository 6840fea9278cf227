#include "workflow/journal/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace flashmoe::workflow {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);  // also lets go of the lock
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

Diagnostic problem(const std::string& path, const char* what) {
  return {.message = std::string(what) + " " + path + ": " + std::strerror(errno),
          .fix = "check the free space and that you may write there: ls -ld " +
                 std::filesystem::path(path).parent_path().string(),
          .file = path};
}

bool ends_torn(int fd, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

bool write_all(int fd, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + sent, bytes.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

// A new file survives a power cut only when its directory entry does.
void sync_directory(const std::filesystem::path& directory) {
  const File handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.fd() >= 0) ::fsync(handle.fd());
}

}  // namespace

Result<Done> append_line(const std::string& path, const std::string& line) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  const bool existed = std::filesystem::exists(path, error);
  const File file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (file.fd() < 0) return problem(path, "cannot open");
  while (::flock(file.fd(), LOCK_EX) != 0) {
    if (errno != EINTR) return problem(path, "cannot lock");
  }
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) return problem(path, "cannot look at");
  // One write: a line is either wholly in the page cache or, after kill -9 in a write the kernel cut short, torn. In
  // the second case the next writer, holding the lock, closes it with a newline of its own.
  const std::string bytes = (ends_torn(file.fd(), status.st_size) ? "\n" : "") + line + "\n";
  if (!write_all(file.fd(), bytes)) return problem(path, "cannot write to");
  if (::fsync(file.fd()) != 0) return problem(path, "cannot sync");
  if (!existed) sync_directory(parent);
  return Done{};
}

Result<Lines> read_lines(const std::string& path) {
  Lines lines;
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return lines;
    return problem(path, "cannot read");
  }
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t n = ::read(file.fd(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return problem(path, "cannot read");
    if (n == 0) break;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.whole.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  lines.torn_end = begin < text.size();
  return lines;
}

}  // namespace flashmoe::workflow
