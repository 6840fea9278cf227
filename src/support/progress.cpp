#include "support/progress.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "support/clock.hpp"
#include "support/text.hpp"

namespace flashmoe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double default_heartbeat_seconds = 15;
constexpr double longest_heartbeat_seconds = 30;
constexpr std::chrono::milliseconds redraw_every{150};

double heartbeat_of(double asked) {
  double seconds = asked;
  if (!(seconds > 0)) {
    const char* text = std::getenv("CUDADENT_HEARTBEAT_SECONDS");
    seconds = text != nullptr ? std::strtod(text, nullptr) : 0;
  }
  // Also for NaN: a setting that is no positive number leaves the default.
  if (!(seconds > 0)) seconds = default_heartbeat_seconds;
  return std::clamp(seconds, 0.01, longest_heartbeat_seconds);
}

bool is_moving_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

std::string duration_text(double seconds) {
  char text[64];
  const long whole = std::lround(std::max(0.0, seconds));
  if (whole < 120) {
    std::snprintf(text, sizeof text, "%ld s", whole);
  } else if (whole < 7200) {
    std::snprintf(text, sizeof text, "%ld min %02ld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

// The line must not wrap, or the next redraw would leave its first row behind. Bytes of a UTF-8 sequence that begins
// before the end are not cut apart.
std::string fit(std::string line, int fd) {
  winsize size{};
  std::size_t columns = 80;
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) columns = size.ws_col;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!is_inside_character(line[i]) && ++seen >= columns) {
      line.resize(i);
      break;
    }
  }
  return line;
}

}  // namespace

struct Progress::State {
  int steps = 0;
  ProgressOptions options;
  bool terminal = false;
  std::chrono::duration<double> heartbeat{default_heartbeat_seconds};

  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  bool active = false;  // a step is under way
  bool drawn = false;   // the moving line is on the terminal
  int index = 0;
  std::string name;
  std::string text;
  double fraction = -1;
  double estimate_seconds = 0;
  Clock::time_point step_start = Clock::now();
  Clock::time_point last_line = Clock::now();
  std::thread ticker;

  void write_all(const std::string& bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::write(options.fd, bytes.data() + sent, bytes.size() - sent);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // nobody reads any more; that must not stop the work
      sent += static_cast<std::size_t>(n);
    }
  }

  [[nodiscard]] std::string head() const {
    return "[" + std::to_string(index) + "/" + std::to_string(std::max(steps, index)) + "] " + name;
  }

  [[nodiscard]] std::string line() const {
    std::string result = head();
    if (!text.empty()) result += "  " + text;
    const double elapsed = seconds_since(step_start);
    result += "  " + duration_text(elapsed);
    double total = estimate_seconds;
    // Once a fifth is done, what was measured tells more than what was guessed.
    if (fraction > 0.2 && fraction <= 1) total = elapsed / fraction;
    if (total > elapsed) {
      result += " of about " + duration_text(total);
    } else if (total > 0) {
      result += ", longer than the " + duration_text(total) + " expected";
    }
    return result;
  }

  void erase() {
    if (drawn) write_all("\r\033[K");
    drawn = false;
  }

  void print(const std::string& full_line) {
    erase();
    write_all(full_line + "\n");
    last_line = Clock::now();
  }

  void draw() {
    write_all("\r\033[K" + fit(line(), options.fd));
    drawn = true;
  }

  void tick() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (terminal) {
        wake.wait_for(lock, redraw_every);
        if (!stopping && active) draw();
        continue;
      }
      wake.wait_until(lock, last_line + std::chrono::duration_cast<Clock::duration>(heartbeat));
      if (stopping) break;
      if (Clock::now() - last_line < heartbeat) continue;
      if (active) {
        print(line());
      } else {
        last_line = Clock::now();
      }
    }
  }

  void finish_step() {
    if (!active) return;
    active = false;
    if (terminal) print(head() + "  " + duration_text(seconds_since(step_start)));
  }
};

Progress::Progress(int steps, bool quiet) : Progress(steps, ProgressOptions{.fd = 2, .quiet = quiet}) {}

Progress::Progress(int steps, const ProgressOptions& options) : state_(std::make_unique<State>()) {
  state_->steps = steps;
  state_->options = options;
  state_->terminal = options.terminal.value_or(is_moving_terminal(options.fd));
  state_->heartbeat = std::chrono::duration<double>(heartbeat_of(options.heartbeat_seconds));
  if (!options.quiet) state_->ticker = std::thread([state = state_.get()] { state->tick(); });
}

Progress::~Progress() {
  done();
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  if (state_->ticker.joinable()) state_->ticker.join();
}

void Progress::step(const std::string& name, double estimate_seconds) {
  const std::scoped_lock lock(state_->mutex);
  if (state_->options.quiet) return;
  state_->finish_step();
  state_->active = true;
  ++state_->index;
  state_->name = name;
  state_->text.clear();
  state_->fraction = -1;
  state_->estimate_seconds = estimate_seconds;
  state_->step_start = Clock::now();
  if (state_->terminal) {
    state_->draw();
  } else {
    std::string line = state_->head();
    if (estimate_seconds >= 1) line += "  about " + duration_text(estimate_seconds);
    state_->print(line);
  }
}

void Progress::update(const std::string& text, double fraction) {
  const std::scoped_lock lock(state_->mutex);
  state_->text = text;
  state_->fraction = fraction;
}

void Progress::note(const std::string& line) {
  const std::scoped_lock lock(state_->mutex);
  if (state_->options.quiet) return;
  state_->print(line);
  if (state_->terminal && state_->active) state_->draw();
}

void Progress::done() {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->options.quiet) state_->finish_step();
}

bool may_colour(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return is_moving_terminal(fd);
}

}  // namespace flashmoe
