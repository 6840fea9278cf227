#include "support/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

extern char** environ;

namespace flashmoe::detail {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

int above_standard(int fd) {
  // 0, 1 and 2 are given to the child by dup2, so no pipe may live there.
  if (fd > 2 || fd < 0) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return moved;
}

bool make_pipe(Pipe& pipe) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  pipe.read_end = above_standard(ends[0]);
  pipe.write_end = above_standard(ends[1]);
  return pipe.read_end >= 0 && pipe.write_end >= 0;
}

void close_range_of(unsigned first, unsigned last) {
  if (first > last) return;
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
  const long limit = std::min<long>(sysconf(_SC_OPEN_MAX), 65536);
  for (long fd = first; fd < limit && fd <= static_cast<long>(last); ++fd) close(static_cast<int>(fd));
}

// `kept` is sorted.
void close_all_but(const int* kept, std::size_t count) {
  unsigned next = 3;
  for (std::size_t i = 0; i < count; ++i) {
    if (kept[i] < 3) continue;
    const auto fd = static_cast<unsigned>(kept[i]);
    if (fd > next) close_range_of(next, fd - 1);
    next = fd + 1;
  }
  close_range_of(next, UINT_MAX);
}

// Kills what the supervisor has adopted: descendants that left the group by setsid or a double fork.
void kill_children_of_self() {
  std::array<char, 64> path{};
  char* at = path.data();
  const auto put = [&](const char* text) {
    while (*text) *at++ = *text++;
  };
  put("/proc/self/task/");
  std::array<char, 16> digits{};
  std::size_t n = 0;
  for (auto tid = static_cast<unsigned>(syscall(SYS_gettid)); tid > 0; tid /= 10) {
    digits[n++] = static_cast<char>('0' + tid % 10);
  }
  while (n > 0) *at++ = digits[--n];
  put("/children");
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::array<char, 4096> text{};
  pid_t pid = 0;
  for (;;) {
    const ssize_t got = read(fd, text.data(), text.size());
    if (got <= 0) break;
    for (ssize_t i = 0; i < got; ++i) {
      const char c = text[static_cast<std::size_t>(i)];
      if (c >= '0' && c <= '9') {
        pid = pid * 10 + (c - '0');
      } else {
        if (pid > 1) kill(pid, SIGKILL);
        pid = 0;
      }
    }
  }
  if (pid > 1) kill(pid, SIGKILL);
  close(fd);
}

// The group first, while its leader is not yet reaped (so that its number cannot mean anybody else), then everything
// adopted, until nothing is left. Bounded: a process in uninterruptible sleep must not keep us here.
int end_everything(pid_t child) {
  kill(-child, SIGKILL);
  int status = SIGKILL;  // what it ends by, should it outlast the waiting below
  for (int round = 0; round < 1000; ++round) {
    int any = 0;
    const pid_t reaped = waitpid(-1, &any, WNOHANG);
    if (reaped == child) status = any;
    if (reaped < 0 && errno == ECHILD) break;
    if (reaped > 0) continue;
    kill_children_of_self();
    const timespec pause{0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
  return status;
}

[[noreturn]] void supervise(pid_t child, int lifeline, int status_fd) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  for (;;) {
    std::array<pollfd, 2> waits{{{lifeline, POLLIN, 0}, {pidfd, POLLIN, 0}}};
    // Without pidfd the end of the child is seen by asking often.
    poll(waits.data(), pidfd >= 0 ? 2 : 1, pidfd >= 0 ? 1000 : 5);
    if (waits[0].revents != 0) {
      char order = 0;
      const ssize_t got = read(lifeline, &order, 1);
      if (got == 1 && order == 'T') kill(-child, SIGTERM);
      if (got == 0 || (got == 1 && order == 'K')) break;
    }
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child) break;
  }
  const int status = end_everything(child);
  ssize_t ignored = write(status_fd, &status, sizeof status);
  static_cast<void>(ignored);
  _exit(0);
}

struct Prepared {
  std::vector<char*> argv;
  std::vector<char*> envp;
  const char* directory = nullptr;
  std::vector<int> keep_fds;  // sorted, with room for the exec error pipe
  bool confined = false;
  Cage cage{};
  Pipe in, out, err, lifeline, status, exec_error;
  sigset_t old_mask{};

  void close_all() const {
    if (cage.ruleset >= 0) close(cage.ruleset);
    for (const Pipe& pipe : {in, out, err, lifeline, status, exec_error}) {
      if (pipe.read_end >= 0) close(pipe.read_end);
      if (pipe.write_end >= 0) close(pipe.write_end);
    }
  }
};

void default_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
}

[[noreturn]] void become_child(const Prepared& prepared, pid_t supervisor) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(127);
  dup2(prepared.in.read_end, 0);
  dup2(prepared.out.write_end, 1);
  dup2(prepared.err.write_end, 2);
  close_all_but(prepared.keep_fds.data(), prepared.keep_fds.size());
  for (const int fd : prepared.keep_fds) {
    if (fd != prepared.exec_error.write_end && fd != prepared.cage.ruleset) fcntl(fd, F_SETFD, 0);
  }
  default_signals();
  sigprocmask(SIG_SETMASK, &prepared.old_mask, nullptr);
  const bool there = !prepared.directory || chdir(prepared.directory) == 0;
  if (there && (!prepared.confined || enter(prepared.cage))) {
    execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  }
  const int error = errno;
  ssize_t ignored = write(prepared.exec_error.write_end, &error, sizeof error);
  static_cast<void>(ignored);
  _exit(127);
}

[[noreturn]] void become_supervisor(const Prepared& prepared) {
  setpgid(0, 0);  // a Ctrl-C at the terminal must not end it before it has cleaned up
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_DUMPABLE, 0);  // it still holds a copy of the parent's memory, which the child must not read
  default_signals();
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) signal(ignored, SIG_IGN);
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) become_child(prepared, self);
  ssize_t written = write(prepared.status.write_end, &child, sizeof child);
  static_cast<void>(written);
  if (child < 0) _exit(127);
  setpgid(child, child);  // here and in the child: whoever comes first
  std::array<int, 2> kept{prepared.lifeline.read_end, prepared.status.write_end};
  if (kept[0] > kept[1]) std::swap(kept[0], kept[1]);
  close_all_but(kept.data(), kept.size());
  for (int fd = 0; fd < 3; ++fd) close(fd);
  supervise(child, prepared.lifeline.read_end, prepared.status.write_end);
}

std::vector<std::string> environment_of(const Command& command) {
  const std::vector<std::string>& changes = command.environment;
  std::vector<std::string> inherited;
  if (command.short_environment) {
    inherited = short_environment();
  } else {
    for (char** entry = environ; entry && *entry; ++entry) inherited.emplace_back(*entry);
  }
  std::vector<std::string> merged;
  const auto name_of = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (std::string& entry : inherited) {
    const std::string name = name_of(entry);
    const bool changed =
        std::any_of(changes.begin(), changes.end(), [&](const std::string& c) { return name_of(c) == name; });
    if (!changed) merged.push_back(std::move(entry));
  }
  for (const std::string& change : changes) {
    if (change.find('=') != std::string::npos) merged.push_back(change);
  }
  return merged;
}

// Reads exactly one T or says that the other side closed.
template <class T>
bool read_whole(int fd, T& value) {
  std::size_t have = 0;
  auto* bytes = reinterpret_cast<char*>(&value);
  while (have < sizeof value) {
    const ssize_t got = read(fd, bytes + have, sizeof value - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Result<Spawned> spawn(const Command& command, const std::vector<int>& keep_fds) {
  if (command.argv.empty() || command.argv[0].empty()) return Diagnostic{.message = "no command to start"};
  Prepared prepared;
  for (Pipe* pipe :
       {&prepared.in, &prepared.out, &prepared.err, &prepared.lifeline, &prepared.status, &prepared.exec_error}) {
    if (!make_pipe(*pipe)) {
      const std::string why = std::strerror(errno);
      prepared.close_all();
      return Diagnostic{.message = "no pipe for '" + command.argv[0] + "': " + why,
                        .fix = "close programs or raise the limit of open files: ulimit -n 4096"};
    }
  }
  std::vector<std::string> environment = environment_of(command);
  for (const std::string& argument : command.argv) prepared.argv.push_back(const_cast<char*>(argument.c_str()));
  for (std::string& entry : environment) prepared.envp.push_back(entry.data());
  prepared.argv.push_back(nullptr);
  prepared.envp.push_back(nullptr);
  prepared.directory = command.directory.empty() ? nullptr : command.directory.c_str();
  prepared.keep_fds = keep_fds;
  prepared.keep_fds.push_back(prepared.exec_error.write_end);
  if (command.confinement) {
    prepared.confined = true;
    prepared.cage = make_cage(*command.confinement);
    if (prepared.cage.ruleset >= 0) prepared.keep_fds.push_back(prepared.cage.ruleset);
  }
  std::sort(prepared.keep_fds.begin(), prepared.keep_fds.end());

  sigset_t all;
  sigfillset(&all);
  // No handler of the parent may run in the forks.
  pthread_sigmask(SIG_SETMASK, &all, &prepared.old_mask);
  const pid_t supervisor = fork();
  if (supervisor == 0) become_supervisor(prepared);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &prepared.old_mask, nullptr);
  if (supervisor < 0) {
    prepared.close_all();
    return Diagnostic{.message = "cannot fork for '" + command.argv[0] + "': " + std::strerror(fork_error),
                      .fix = "close programs or raise the limit of processes: ulimit -u"};
  }
  for (const int fd : {prepared.in.read_end, prepared.out.write_end, prepared.err.write_end, prepared.lifeline.read_end,
                       prepared.status.write_end, prepared.exec_error.write_end}) {
    close(fd);
  }
  if (prepared.cage.ruleset >= 0) close(prepared.cage.ruleset);
  Spawned spawned{.supervisor = supervisor,
                  .in = prepared.in.write_end,
                  .out = prepared.out.read_end,
                  .err = prepared.err.read_end,
                  .lifeline = prepared.lifeline.write_end,
                  .status = prepared.status.read_end};
  int exec_errno = 0;
  const bool have_pid = read_whole(spawned.status, spawned.child) && spawned.child > 0;
  const bool exec_failed = have_pid && read_whole(prepared.exec_error.read_end, exec_errno);
  close(prepared.exec_error.read_end);
  if (have_pid && !exec_failed) return spawned;
  for (const int fd : {spawned.in, spawned.out, spawned.err, spawned.lifeline, spawned.status}) close(fd);
  while (waitpid(supervisor, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string where = command.directory.empty() ? "" : " in " + command.directory;
  return Diagnostic{.message = "cannot start '" + command.argv[0] + "'" + where + ": " +
                               std::strerror(exec_failed ? exec_errno : EAGAIN),
                    .fix = "check that the program exists and is executable: command -v " + command.argv[0]};
}

}  // namespace flashmoe::detail
