#include "workflow/journal/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "workflow/verdict/codes.hpp"

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
          .file = path,
          .code = codes::journal_unreadable};
}

// The first part of the path from .cudadent on that is a symbolic link: whoever may write into the project could send
// records elsewhere with it. Links above the project are the user's own.
std::string linked_part(const std::filesystem::path& path) {
  std::filesystem::path part;
  bool ours = false;
  std::error_code error;
  for (const auto& name : path) {
    part /= name;
    ours = ours || name == ".cudadent";
    if (ours && std::filesystem::is_symlink(part, error)) return part.string();
  }
  return {};
}

Diagnostic refused_link(const std::string& path, const std::string& link) {
  return {.message = link + " is a symbolic link: records are neither read nor written through one",
          .fix = "ls -l " + link + "; remove the link, or put the directory itself there",
          .file = path,
          .code = codes::journal_unreadable};
}

bool is_file(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

Diagnostic not_a_file(const std::string& path) {
  return {.message = path + " is no regular file",
          .fix = "ls -l " + path + "; move it away",
          .file = path,
          .code = codes::journal_unreadable};
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

Result<LockedLines> LockedLines::open(const std::string& path) {
  if (const auto link = linked_part(path); !link.empty()) return refused_link(path, link);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const bool existed = std::filesystem::exists(path, error);
  // O_NONBLOCK: a pipe in its place must not be waited for.
  const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) return problem(path, "cannot open");
  LockedLines lines(path, fd, existed);
  if (!is_file(fd)) return not_a_file(path);
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return problem(path, "cannot lock");
  }
  return lines;
}

LockedLines::LockedLines(LockedLines&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), existed_(other.existed_) {}

LockedLines::~LockedLines() {
  if (fd_ >= 0) ::close(fd_);  // also lets go of the lock
}

Result<Done> LockedLines::append(const std::string& line) const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return problem(path_, "cannot look at");
  // One write: a line is either wholly in the page cache or, after kill -9 in a write the kernel cut short, torn. In
  // the second case the next writer, holding the lock, closes it with a newline of its own.
  const std::string bytes = (ends_torn(fd_, status.st_size) ? "\n" : "") + line + "\n";
  if (!write_all(fd_, bytes)) return problem(path_, "cannot write to");
  if (::fsync(fd_) != 0) return problem(path_, "cannot sync");
  if (!existed_) sync_directory(std::filesystem::path(path_).parent_path());
  return Done{};
}

Result<Done> append_line(const std::string& path, const std::string& line) {
  const auto lines = LockedLines::open(path);
  if (!lines) return lines.error();
  return lines->append(line);
}

Result<Lines> read_lines(const std::string& path) {
  Lines lines;
  if (const auto link = linked_part(path); !link.empty()) return refused_link(path, link);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return lines;
    return problem(path, "cannot read");
  }
  if (!is_file(file.fd())) return not_a_file(path);
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
