// A file of lines that only ever grows and that any number of processes may append to. A line whose append returned
// is on the disk whole; one that was cut off by a crash is closed by the next writer and never joined with its line.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

// `line` without its end and without any newline in it. Makes the directory when it is missing.
[[nodiscard]] Result<Done> append_line(const std::string& path, const std::string& line);

struct Lines {
  std::vector<std::string> whole;
  bool torn_end = false;  // the last line has no end: a writer died, or is at it right now
};
// A file that does not exist has no lines.
[[nodiscard]] Result<Lines> read_lines(const std::string& path);

}  // namespace flashmoe::workflow
