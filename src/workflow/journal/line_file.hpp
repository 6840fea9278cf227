// A file of lines that only ever grows and that any number of processes may append to. A line whose append returned
// is on the disk whole; one that was cut off by a crash is closed by the next writer and never joined with its line.
// A symbolic link in its place, or in place of one of the directories from .cudadent on, is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/file_stamp.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// All zero for a file that is not there.
[[nodiscard]] FileStamp stamp_of(const std::string& path);

// Held open and locked: nobody else appends while it lives.
class LockedLines {
 public:
  // Makes file and directory when they are missing.
  [[nodiscard]] static Result<LockedLines> open(const std::string& path);
  // An error where somebody else holds the lock.
  [[nodiscard]] static Result<LockedLines> open_if_free(const std::string& path);
  LockedLines(const LockedLines&) = delete;
  LockedLines& operator=(const LockedLines&) = delete;
  LockedLines(LockedLines&& other) noexcept;
  LockedLines& operator=(LockedLines&& other) = delete;
  ~LockedLines();
  // `line` without its end and without any newline in it.
  [[nodiscard]] Result<Done> append(const std::string& line) const;
  // Puts a file of these lines in its place, each with its end: whole or not at all. The lock goes with the old one.
  [[nodiscard]] Result<Done> replace(const std::string& lines) const;
  [[nodiscard]] FileStamp stamp() const;

 private:
  [[nodiscard]] static Result<LockedLines> open(const std::string& path, int lock);
  LockedLines(std::string path, int fd, bool existed) : path_(std::move(path)), fd_(fd), existed_(existed) {}
  std::string path_;
  int fd_;
  bool existed_;
};

// One line, opened and locked for it alone.
[[nodiscard]] Result<Done> append_line(const std::string& path, const std::string& line);

struct Lines {
  std::vector<std::string> whole;
  bool torn_end = false;  // the last line has no end: a writer died, or is at it right now
};
// A file that does not exist has no lines.
[[nodiscard]] Result<Lines> read_lines(const std::string& path);

// The end of a file, from where a line begins.
struct FileEnd {
  std::uint64_t offset = 0;
  std::string text{};  // whole lines with their ends
  bool torn_end = false;
};
[[nodiscard]] Result<FileEnd> read_from(const std::string& path, std::uint64_t offset);
[[nodiscard]] std::vector<std::string_view> lines_in(const FileEnd& end);
// So many bytes from there; fewer where the file ends.
[[nodiscard]] Result<std::string> read_part(const std::string& path, std::uint64_t offset, std::uint64_t length);

}  // namespace flashmoe::workflow
