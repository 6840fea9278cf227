#include "workflow/journal/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
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

FileStamp stamp_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? stamp_from(status) : FileStamp{};
}

Result<LockedLines> LockedLines::open(const std::string& path) {
  return open(path, LOCK_EX);
}

Result<LockedLines> LockedLines::open_if_free(const std::string& path) {
  return open(path, LOCK_EX | LOCK_NB);
}

Result<LockedLines> LockedLines::open(const std::string& path, int lock) {
  if (const auto link = linked_part(path); !link.empty()) return refused_link(path, link);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  for (;;) {
    const bool existed = std::filesystem::exists(path, error);
    // O_NONBLOCK: a pipe in its place must not be waited for.
    const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (fd < 0) return problem(path, "cannot open");
    LockedLines lines(path, fd, existed);
    if (!is_file(fd)) return not_a_file(path);
    while (::flock(fd, lock) != 0) {
      if (errno != EINTR) return problem(path, "cannot lock");
    }
    // Whoever had the lock may have put another file in its place.
    if (lines.stamp().inode == stamp_of(path).inode) return lines;
  }
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

FileStamp LockedLines::stamp() const {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 ? stamp_from(status) : FileStamp{};
}

Result<Done> LockedLines::replace(const std::string& lines) const {
  const std::string next = path_ + ".next";
  static_cast<void>(::unlink(next.c_str()));  // of a process that was killed: nobody else is here
  {
    const File file(::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (file.fd() < 0) return problem(next, "cannot open");
    if (!write_all(file.fd(), lines)) return problem(next, "cannot write to");
    if (::fsync(file.fd()) != 0) return problem(next, "cannot sync");
  }
  if (::rename(next.c_str(), path_.c_str()) != 0) return problem(path_, "cannot replace");
  sync_directory(std::filesystem::path(path_).parent_path());
  return Done{};
}

Result<Done> append_line(const std::string& path, const std::string& line) {
  const auto lines = LockedLines::open(path);
  if (!lines) return lines.error();
  return lines->append(line);
}

Result<std::string> read_part(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  std::string text;
  if (const auto link = linked_part(path); !link.empty()) return refused_link(path, link);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return text;
    return problem(path, "cannot read");
  }
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return not_a_file(path);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  text.resize(offset < size ? std::min(length, size - offset) : 0);
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::pread(file.fd(), text.data() + got, text.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return problem(path, "cannot read");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

Result<FileEnd> read_from(const std::string& path, std::uint64_t offset) {
  auto text = read_part(path, offset, std::numeric_limits<std::uint64_t>::max());
  if (!text) return text.error();
  FileEnd end{.offset = offset, .text = std::move(*text)};
  const std::size_t whole = end.text.rfind('\n') + 1;  // 0 where there is none
  end.torn_end = whole < end.text.size();
  end.text.resize(whole);
  return end;
}

std::vector<std::string_view> lines_in(const FileEnd& end) {
  std::vector<std::string_view> lines;
  std::string_view rest = end.text;
  for (std::size_t newline = rest.find('\n'); newline != std::string_view::npos; newline = rest.find('\n')) {
    lines.push_back(rest.substr(0, newline));
    rest.remove_prefix(newline + 1);
  }
  return lines;
}

Result<Lines> read_lines(const std::string& path) {
  const auto all = read_from(path, 0);
  if (!all) return all.error();
  const std::vector<std::string_view> lines = lines_in(*all);
  return Lines{.whole = {lines.begin(), lines.end()}, .torn_end = all->torn_end};
}

}  // namespace flashmoe::workflow
