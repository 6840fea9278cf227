// Everything that runs below one process, stopped and continued as a whole. A descendant may leave its group and its
// session, but not the tree: a supervisor (process.hpp) adopts it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace flashmoe {

// What the members that live have done so far, as the operating system counts it.
struct Work {
  double cpu_seconds = -1;           // of all; -1: not known
  double first_thread_seconds = -1;  // of the first thread where there is one member; -1: there are more, or not known
  long waits = -1;                   // how often a thread that lives gave its processor away by itself; -1: not known
};

// Nobody but the first thread of the only member ran in between.
[[nodiscard]] bool one_thread_ran(const Work& before, const Work& after);

class ProcessTree {
 public:
  ProcessTree() = default;
  // All below `root`; the root itself is no part of it.
  explicit ProcessTree(pid_t root);

  // Sends SIGSTOP to all members known: from here on they execute no instruction of their own.
  void tell_to_stop() const;
  // Finds the members there are by now, and stops them until two listings in a row are equal and every thread of every
  // member is seen stopped. False: not within the limit.
  [[nodiscard]] bool wait_until_stopped(std::chrono::milliseconds limit);
  void resume() const;
  // Processor time of the members that live, as the operating system counts it; -1: not known.
  [[nodiscard]] double cpu_seconds() const;
  [[nodiscard]] std::size_t size() const { return members_.size(); }
  // All of it; exact while they are stopped.
  [[nodiscard]] Work work() const;

 private:
  pid_t root_ = -1;
  std::vector<pid_t> members_;
};

}  // namespace flashmoe
