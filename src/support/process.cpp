#include "support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <mutex>

#include "support/clock.hpp"
#include "support/supervisor.hpp"

namespace flashmoe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_captured_bytes = std::size_t{64} << 20;
constexpr std::chrono::milliseconds tick{100};            // how often interruption and limits are looked at
constexpr std::chrono::milliseconds grace_to_end{300};    // between SIGTERM and SIGKILL
constexpr std::chrono::milliseconds grace_to_stop{1000};  // after closing stdin

std::atomic<int> interrupt_seen{0};  // the first signal

// Lifelines of everything that runs, for the signal handler: a fixed table, since it may not allocate or lock.
std::array<std::atomic<int>, 256> live_lifelines;
std::once_flag table_ready;

void prepare_table() {
  std::call_once(table_ready, [] {
    for (auto& slot : live_lifelines) slot.store(-1);
    // A child that died must show as a failed write, not end us.
    struct sigaction current {};
    if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
  });
}

void remember(int lifeline) {
  for (auto& slot : live_lifelines) {
    int free_slot = -1;
    if (slot.compare_exchange_strong(free_slot, lifeline)) return;
  }
}

void forget(int lifeline) {
  for (auto& slot : live_lifelines) {
    int held = lifeline;
    if (slot.compare_exchange_strong(held, -1)) return;
  }
}

void order(int lifeline, char what) {
  if (lifeline < 0) return;
  const ssize_t ignored = write(lifeline, &what, 1);
  static_cast<void>(ignored);
}

void on_interrupt(int signal_number) {
  const int saved = errno;
  if (interrupt_seen.exchange(signal_number) != 0) {
    // The second one: whoever waits should not wait for us. The supervisors clean up when we are gone.
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  for (auto& slot : live_lifelines) order(slot.load(), 'K');
  errno = saved;
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// Appends what is there; false at the end of the stream.
bool drain(int& fd, std::string& into) {
  if (fd < 0) return false;
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t got = read(fd, chunk.data(), chunk.size());
    if (got > 0) {
      const std::size_t room = max_captured_bytes - std::min(max_captured_bytes, into.size());
      into.append(chunk.data(), std::min(room, static_cast<std::size_t>(got)));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    close_fd(fd);
    return false;
  }
}

}  // namespace

std::string Finished::describe() const {
  if (interrupted) return "interrupted, its process group was killed";
  if (timed_out) {
    const long whole = std::lround(seconds);
    return "timed out after " + std::to_string(whole) + " s, its process group was killed";
  }
  if (signal != 0) {
    const char* name = sigabbrev_np(signal);
    const std::string text = name ? std::string("SIG") + name : "signal " + std::to_string(signal);
    const bool crash = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
                       signal == SIGABRT || signal == SIGSYS;
    return "killed by " + text + (crash ? " (crash)" : "");
  }
  return "exit code " + std::to_string(exit_code);
}

struct Conversation::State {
  detail::Spawned ends;
  std::string buffer;
  Clock::time_point started = Clock::now();
  bool settled = false;

  explicit State(const detail::Spawned& spawned) : ends(spawned) {
    remember(ends.lifeline);
    for (const int fd : {ends.out, ends.err}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  ~State() {
    forget(ends.lifeline);
    for (int* fd : {&ends.in, &ends.out, &ends.err, &ends.lifeline, &ends.status}) close_fd(*fd);
    while (!settled && waitpid(ends.supervisor, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Waits for output, the end of the child or the passing of time. True when the status is there.
  bool wait(std::chrono::milliseconds at_most) {
    std::array<pollfd, 3> waits{{{ends.status, POLLIN, 0}, {ends.out, POLLIN, 0}, {ends.err, POLLIN, 0}}};
    poll(waits.data(), waits.size(), static_cast<int>(at_most.count()));
    return waits[0].revents != 0;
  }

  bool ended_within(std::chrono::milliseconds limit, Finished& finished) {
    constexpr std::chrono::milliseconds step{10};
    const auto deadline = Clock::now() + limit;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (wait(std::clamp(left, std::chrono::milliseconds(0), step))) return true;
      drain(ends.out, buffer);
      drain(ends.err, finished.err);
      if (left.count() <= 0) return false;
    }
  }

  void end(Finished& finished) {
    order(ends.lifeline, 'T');
    if (!ended_within(grace_to_end, finished)) order(ends.lifeline, 'K');
  }
};

Conversation::Conversation() = default;
Conversation::~Conversation() = default;  // closing the lifeline kills
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;
pid_t Conversation::pid() const {
  return state_ ? state_->ends.child : -1;
}

pid_t Conversation::supervisor() const {
  return state_ ? state_->ends.supervisor : -1;
}

Result<Conversation> Conversation::start(const Command& command, const std::vector<int>& keep_fds) {
  prepare_table();
  auto spawned = detail::spawn(command, keep_fds);
  if (!spawned) return spawned.error();
  Conversation conversation;
  conversation.state_ = std::make_unique<State>(*spawned);
  // The interrupt may have come before the lifeline was in the table.
  if (interrupted()) order(spawned->lifeline, 'K');
  return conversation;
}

Result<Done> Conversation::send(const std::string& line) {
  if (!state_ || state_->ends.in < 0) return Diagnostic{.message = "the process is not running"};
  const std::string whole = line + "\n";
  std::size_t sent = 0;
  while (sent < whole.size()) {
    const ssize_t put = write(state_->ends.in, whole.data() + sent, whole.size() - sent);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Diagnostic{.message = std::string("the process no longer listens: ") + std::strerror(errno)};
    sent += static_cast<std::size_t>(put);
  }
  return Done{};
}

void Conversation::settle() {
  State& state = *state_;
  if (state.settled) return;
  int status = 0;
  std::size_t have = 0;
  while (have < sizeof status) {
    const ssize_t got = read(state.ends.status, reinterpret_cast<char*>(&status) + have, sizeof status - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have < sizeof status) status = SIGKILL;  // the supervisor itself was killed, and the child with it
  drain(state.ends.out, state.buffer);
  drain(state.ends.err, finished_.err);
  while (waitpid(state.ends.supervisor, nullptr, 0) < 0 && errno == EINTR) {
  }
  forget(state.ends.lifeline);
  close_fd(state.ends.lifeline);
  close_fd(state.ends.in);
  state.settled = true;
  finished_.seconds = seconds_since(state.started);
  if (WIFEXITED(status)) finished_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) finished_.signal = WTERMSIG(status);
  if (interrupted()) finished_.interrupted = true;
}

Result<std::string> Conversation::receive(std::chrono::milliseconds limit) {
  if (!state_) return Diagnostic{.message = "the process is not running"};
  State& state = *state_;
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const std::size_t end = state.buffer.find('\n');
    if (end != std::string::npos) {
      std::string line = state.buffer.substr(0, end);
      state.buffer.erase(0, end + 1);
      return line;
    }
    if (state.settled) return Diagnostic{.message = "the process has ended: " + finished_.describe()};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || interrupted()) {
      finished_.interrupted = interrupted();
      finished_.timed_out = !finished_.interrupted;
      state.end(finished_);
      settle();
      return Diagnostic{.message = finished_.describe()};
    }
    const bool ended = state.wait(std::min(left, tick));
    drain(state.ends.out, state.buffer);
    drain(state.ends.err, finished_.err);
    if (ended) settle();
  }
}

bool Conversation::ends_within(std::chrono::milliseconds limit) {
  if (!state_ || state_->settled) return true;
  if (!state_->ended_within(limit, finished_)) return false;
  settle();
  return true;
}

void Conversation::ask_to_end() {
  if (state_ && !state_->settled) order(state_->ends.lifeline, 'T');
}

Finished Conversation::stop() {
  if (!state_) return finished_;
  if (!state_->settled) {
    close_fd(state_->ends.in);
    if (!state_->ended_within(grace_to_stop, finished_)) state_->end(finished_);
    settle();
  }
  finished_.out = state_->buffer;
  return finished_;
}

Result<Finished> run_process(const Command& command, const std::function<void()>& idle) {
  prepare_table();
  const auto start = Clock::now();
  auto spawned = detail::spawn(command, {});
  if (!spawned) return spawned.error();
  const int lifeline = spawned->lifeline;
  remember(lifeline);
  if (interrupted()) order(lifeline, 'K');
  close_fd(spawned->in);
  Finished finished;
  for (const int fd : {spawned->out, spawned->err}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  bool asked = false;
  bool killed = false;
  auto next_idle = start + tick;
  auto kill_at = start + command.limit + grace_to_end;
  for (;;) {
    std::array<pollfd, 3> waits{{{spawned->status, POLLIN, 0}, {spawned->out, POLLIN, 0}, {spawned->err, POLLIN, 0}}};
    poll(waits.data(), waits.size(), static_cast<int>(tick.count()));
    drain(spawned->out, finished.out);
    drain(spawned->err, finished.err);
    if (waits[0].revents != 0) break;
    const auto now = Clock::now();
    if (!asked && now - start > command.limit) {
      asked = true;
      finished.timed_out = true;
      order(lifeline, 'T');
    }
    if (!killed && ((asked && now > kill_at) || interrupted())) {
      killed = true;
      order(lifeline, 'K');
    }
    if (idle && now >= next_idle) {
      idle();
      next_idle = now + tick;
    }
  }
  int status = 0;
  if (read(spawned->status, &status, sizeof status) != static_cast<ssize_t>(sizeof status)) status = SIGKILL;
  drain(spawned->out, finished.out);
  drain(spawned->err, finished.err);
  forget(lifeline);
  for (int* fd : {&spawned->out, &spawned->err, &spawned->lifeline, &spawned->status}) close_fd(*fd);
  while (waitpid(spawned->supervisor, nullptr, 0) < 0 && errno == EINTR) {
  }
  finished.seconds = seconds_since(start);
  finished.interrupted = interrupted();
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) finished.signal = WTERMSIG(status);
  return finished;
}

bool interrupted() {
  return interrupt_seen.load() != 0;
}

int interrupt_signal() {
  return interrupt_seen.load();
}

void install_interrupt_handler() {
  prepare_table();
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

}  // namespace flashmoe
