#include "support/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace flashmoe {
namespace {

std::string text_of_file(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  std::array<char, 4096> chunk;
  for (ssize_t got = 0; (got = read(fd, chunk.data(), chunk.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  close(fd);
  return text;
}

std::vector<pid_t> numbers_in(std::string_view text) {
  std::vector<pid_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    pid_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error == std::errc{}) numbers.push_back(number);
    at = error == std::errc{} ? next : at + 1;
  }
  return numbers;
}

std::string task_directory(pid_t process) {
  return "/proc/" + std::to_string(process) + "/task/";
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  const auto close_directory = [](DIR* directory) { closedir(directory); };
  const std::unique_ptr<DIR, decltype(close_directory)> directory(opendir(task_directory(process).c_str()),
                                                                  close_directory);
  if (!directory) return threads;
  while (const dirent* entry = readdir(directory.get())) {
    const auto number = numbers_in(entry->d_name);
    if (!number.empty()) threads.push_back(number.front());
  }
  return threads;
}

std::vector<pid_t> descendants_of(pid_t root) {
  std::vector<pid_t> found{root};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const pid_t process = found[next];
    for (const pid_t thread : threads_of(process)) {
      const auto children = numbers_in(text_of_file(task_directory(process) + std::to_string(thread) + "/children"));
      found.insert(found.end(), children.begin(), children.end());
    }
  }
  found.erase(found.begin());
  std::sort(found.begin(), found.end());
  return found;
}

// 'T' stopped, 't' stopped by a tracer, 'Z' and 'X' ended. 'D' waits for a device or for a child of vfork and takes the
// signal that is pending before it returns to its own code.
bool is_stopped(pid_t process) {
  const auto threads = threads_of(process);
  return std::all_of(threads.begin(), threads.end(), [&](pid_t thread) {
    const std::string stat = text_of_file(task_directory(process) + std::to_string(thread) + "/stat");
    const std::size_t name_end = stat.rfind(')');                                   // the name may hold anything
    if (name_end == std::string::npos || name_end + 2 >= stat.size()) return true;  // ended while we looked
    return std::string_view("TtZXD").find(stat[name_end + 2]) != std::string_view::npos;
  });
}

// The first number of schedstat: nanoseconds on a processor. -1: this kernel does not say.
double seconds_of_thread(pid_t process, pid_t thread) {
  const std::string text = text_of_file(task_directory(process) + std::to_string(thread) + "/schedstat");
  long long nanoseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nanoseconds);
  return error == std::errc{} ? static_cast<double>(nanoseconds) * 1e-9 : -1;
}

long waits_of(pid_t process, pid_t thread) {
  const std::string status = text_of_file(task_directory(process) + std::to_string(thread) + "/status");
  constexpr std::string_view key = "\nvoluntary_ctxt_switches:\t";
  const std::size_t at = status.find(key);
  long waits = 0;
  if (at == std::string::npos) return status.empty() ? 0 : -1;  // empty: ended while we looked
  const auto [end, error] = std::from_chars(status.data() + at + key.size(), status.data() + status.size(), waits);
  return error == std::errc{} ? waits : -1;
}

}  // namespace

bool one_thread_ran(const Work& before, const Work& after) {
  if (before.first_thread_seconds < 0 || after.first_thread_seconds < 0) return false;
  // Both are sums of the same nanoseconds; a thread that only starts and ends takes some microseconds.
  constexpr double rounding_seconds = 1e-6;
  const double all = after.cpu_seconds - before.cpu_seconds;
  const double first = after.first_thread_seconds - before.first_thread_seconds;
  return all - first < rounding_seconds;
}

ProcessTree::ProcessTree(pid_t root) : root_(root), members_(descendants_of(root)) {}

void ProcessTree::tell_to_stop() const {
  for (const pid_t member : members_) kill(member, SIGSTOP);
}

bool ProcessTree::wait_until_stopped(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  // A member that ran during a listing may have had a child behind its back; one that was stopped before cannot.
  bool all_were_stopped = false;
  for (int round = 0;; ++round) {
    auto found = descendants_of(root_);
    bool all_are_stopped = true;
    for (const pid_t member : found) {
      if (is_stopped(member)) continue;
      all_are_stopped = false;
      kill(member, SIGSTOP);
    }
    const bool same = found == members_;
    members_ = std::move(found);
    if (all_were_stopped && all_are_stopped && same) return true;
    all_were_stopped = all_are_stopped;
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (!all_are_stopped) std::this_thread::sleep_for(std::chrono::microseconds(round < 10 ? 20 : 500));
  }
}

void ProcessTree::resume() const {
  for (const pid_t member : members_) kill(member, SIGCONT);
}

double ProcessTree::cpu_seconds() const {
  double sum = 0;
  bool known = false;
  for (const pid_t member : members_) {
    clockid_t clock{};
    timespec time{};
    if (clock_getcpuclockid(member, &clock) != 0 || clock_gettime(clock, &time) != 0) continue;
    sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    known = true;
  }
  return known ? sum : -1;
}

Work ProcessTree::work() const {
  Work work{.cpu_seconds = cpu_seconds(), .waits = 0};
  for (const pid_t member : members_) {
    for (const pid_t thread : threads_of(member)) {
      const long waits = waits_of(member, thread);
      work.waits = waits < 0 || work.waits < 0 ? -1 : work.waits + waits;
    }
  }
  if (members_.size() == 1) work.first_thread_seconds = seconds_of_thread(members_.front(), members_.front());
  return work;
}

}  // namespace flashmoe
