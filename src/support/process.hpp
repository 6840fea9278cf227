// Child processes that cannot be left behind: each runs in a process group of its own, dies with its parent, has a
// time limit, and its whole group is killed when the limit passes, when the parent is interrupted or when the object
// goes away. Between the parent and the child stands a small supervisor (a fork of the parent, no exec): it adopts
// every orphan below it and kills them all when the child ends or when the parent is gone, also after kill -9.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/confinement.hpp"
#include "support/result.hpp"

namespace flashmoe {

struct Command {
  std::vector<std::string> argv;
  std::string directory{};                 // empty: the parent's
  std::vector<std::string> environment{};  // "NAME=value", added to the parent's; "NAME" alone removes it
  bool short_environment = false;          // of the parent's only what foreign code may see
  std::optional<Confinement> confinement{};
  std::chrono::milliseconds limit{60'000};
};

struct Finished {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  bool timed_out = false;
  bool interrupted = false;  // the parent got SIGINT or SIGTERM
  std::string out;
  std::string err;
  double seconds = 0;
  [[nodiscard]] bool ok() const { return exit_code == 0 && !timed_out && !interrupted; }
  // "exit code 3", "killed by SIGSEGV (crash)", "timed out after 60 s, its process group was killed"
  [[nodiscard]] std::string describe() const;
};

// Runs to the end and captures both streams. `idle` is called about ten times a second while it runs.
[[nodiscard]] Result<Finished> run_process(const Command& command, const std::function<void()>& idle = {});

// A child one talks to in lines over its stdin and stdout; stderr is captured.
class Conversation {
 public:
  Conversation();
  ~Conversation();  // kills the group
  Conversation(Conversation&& other) noexcept;
  Conversation& operator=(Conversation&& other) noexcept;
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // `keep_fds` are inherited by the child under the same numbers (shared memory).
  [[nodiscard]] static Result<Conversation> start(const Command& command, const std::vector<int>& keep_fds = {});
  [[nodiscard]] Result<Done> send(const std::string& line);
  // One line without its end. A diagnostic when the child ended, crashed, was too late or the parent was interrupted;
  // the group is dead then, and `finished()` says how it went.
  [[nodiscard]] Result<std::string> receive(std::chrono::milliseconds limit);
  // Reads what it prints, for so long at most; true: it has ended, and `finished()` says how. It may go on otherwise.
  [[nodiscard]] bool ends_within(std::chrono::milliseconds limit);
  void ask_to_end();                                                    // SIGTERM to its group
  Finished stop();                                                      // closes its stdin, waits shortly, then kills
  [[nodiscard]] const Finished& finished() const { return finished_; }  // while it runs: what it wrote to stderr so far
  [[nodiscard]] pid_t pid() const;                                      // -1 when there is none
  [[nodiscard]] pid_t supervisor() const;  // above the child and all its descendants; -1 when there is none

 private:
  struct State;
  void settle();  // the child has ended: reads what is left and how it went
  std::unique_ptr<State> state_;
  Finished finished_;
};

// True after SIGINT or SIGTERM; install_interrupt_handler() makes the first one set this and kill all child groups.
[[nodiscard]] bool interrupted();
// Which signal that was; 0: none. A person sends SIGINT; SIGTERM is how a rented machine says that it goes away.
[[nodiscard]] int interrupt_signal();
void install_interrupt_handler();

}  // namespace flashmoe
