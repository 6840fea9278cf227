// What a person sees on stderr while something works: "[2/5] build  12/40 sm_89  8 s of about 30 s". On a terminal one
// line that moves; elsewhere a line per step and a heartbeat at least every 30 s. Nothing here goes to stdout.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace flashmoe {

struct ProgressOptions {
  int fd = 2;
  bool quiet = false;              // writes nothing at all (tests, --quiet)
  std::optional<bool> terminal{};  // unset: ask the file descriptor and TERM
  // How long a step may be silent where nothing moves; 0: CUDADENT_HEARTBEAT_SECONDS, else 15 s. At most 30 s.
  double heartbeat_seconds = 0;
};

class Progress {
 public:
  // `quiet` writes nothing at all (tests, --quiet).
  explicit Progress(int steps, bool quiet = false);
  Progress(int steps, const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts the next step; `estimate_seconds` 0 means unknown.
  void step(const std::string& name, double estimate_seconds = 0);
  void update(const std::string& text, double fraction = -1);  // thread-safe, cheap
  void note(const std::string& line);                          // a full line above the moving one
  void done();                                                 // ends the last step; the destructor does too

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether stderr (fd 2) or stdout (fd 1) may be coloured: a terminal, and NO_COLOR unset or empty.
[[nodiscard]] bool may_colour(int fd);

}  // namespace flashmoe
