// A file of lines that only ever grows and that any number of processes may append to. A line whose append returned
// is on the disk whole; one that was cut off by a crash is closed by the next writer and never joined with its line.
// A symbolic link in its place, or in place of one of the directories from .cudadent on, is refused.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

// Held open and locked: nobody else appends while it lives.
class LockedLines {
 public:
  // Makes file and directory when they are missing.
  [[nodiscard]] static Result<LockedLines> open(const std::string& path);
  LockedLines(const LockedLines&) = delete;
  LockedLines& operator=(const LockedLines&) = delete;
  LockedLines(LockedLines&& other) noexcept;
  LockedLines& operator=(LockedLines&& other) = delete;
  ~LockedLines();
  // `line` without its end and without any newline in it.
  [[nodiscard]] Result<Done> append(const std::string& line) const;

 private:
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

}  // namespace flashmoe::workflow
