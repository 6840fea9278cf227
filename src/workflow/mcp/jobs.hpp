// Processes of tools: started, watched, waited for by any number of calls, and ended. What measures runs one at a time.
// Nothing here blocks: tick() looks at what happened meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/result.hpp"
#include "workflow/mcp/tool_answer.hpp"
#include "workflow/mcp/tool_table.hpp"

namespace flashmoe::workflow::mcp {

// A cudadent that runs. Its destructor ends it and everything below it.
class Child {
 public:
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  virtual ~Child() = default;
  [[nodiscard]] virtual bool has_ended() = 0;
  [[nodiscard]] virtual const std::string& log() const = 0;  // what it wrote to stderr so far
  [[nodiscard]] virtual Finished finished() = 0;             // after it has ended
  virtual void ask_to_end() = 0;
};
// Of a command line without the program.
using Launch = std::function<Result<std::unique_ptr<Child>>(const std::vector<std::string>& command_line)>;

// From lines "[2/5] build  12/40  8 s" to a number that only grows.
class ProgressValue {
 public:
  void take(const std::string& line);
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] int steps() const { return steps_; }  // 0: not known
  [[nodiscard]] const std::string& line() const { return line_; }

 private:
  double value_ = 0;
  int steps_ = 0;
  std::string line_{};
};

struct Job {
  enum class State { queued, running, ended };
  std::string id{};
  const Tool* tool = nullptr;
  std::string project{};
  std::vector<std::string> command_line{};
  State state = State::queued;
  std::string since{};  // UTC
  std::chrono::steady_clock::time_point begun{};
  std::unique_ptr<Child> child{};
  std::size_t log_read = 0;
  ProgressValue progress{};
  std::string log{};  // once it has ended
  ToolAnswer answer{};
};

class Jobs {
 public:
  explicit Jobs(Launch launch) : launch_(std::move(launch)) {}

  // A diagnostic when too many wait already.
  [[nodiscard]] Result<Job*> start(const Tool& tool, const Asked& asked);
  [[nodiscard]] Job* find(const std::string& id);  // nullptr: there is none
  void stop(Job& job, const char* why);
  void tick();
  [[nodiscard]] bool is_busy() const;  // something runs or waits
  void ask_all_to_end();
  [[nodiscard]] const std::list<Job>& all() const { return jobs_; }
  [[nodiscard]] static JobState state_of(const Job& job);

 private:
  void begin(Job& job);
  void end(Job& job, ToolAnswer answer);
  void forget_the_oldest();
  Launch launch_;
  std::list<Job> jobs_;  // in the order in which they were asked for
};

}  // namespace flashmoe::workflow::mcp
