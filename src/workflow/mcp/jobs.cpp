#include "workflow/mcp/jobs.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>

#include "support/clock.hpp"
#include "support/text.hpp"
#include "workflow/mcp/uris.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow::mcp {
namespace {

constexpr std::size_t most_unfinished = 16;
constexpr std::size_t most_kept = 64;
constexpr std::size_t most_log_bytes = std::size_t{64} << 10;
constexpr double longest_seconds = 4 * 3600;

std::string now_as_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

// Conversations share a process and know nothing of each other: an id is not guessed by counting.
std::string new_id(const Tool& tool) {
  std::random_device source;
  return fmt::format("{}-{:08x}", tool.name, source());
}

std::string shell_line(const std::vector<std::string>& command_line) {
  std::string line = "cudadent";
  for (const std::string& word : command_line) line += " " + shell_word(word);
  return line;
}

// The end says why it ended.
std::string kept_of(const std::string& log) {
  return log.size() <= most_log_bytes ? log : log.substr(log.size() - most_log_bytes);
}

}  // namespace

void ProgressValue::take(const std::string& line) {
  int step = 0;
  int steps = 0;
  if (std::sscanf(line.c_str(), "[%d/%d]", &step, &steps) != 2 || step < 1 || steps < step) return;
  line_ = line;
  steps_ = std::max(steps, steps_);
  // A step begins a tenth behind its predecessor's end; each further line comes a tenth of the rest closer to its own.
  const double begun = step - 0.9;
  const double end = std::floor(value_) + 1;
  value_ = begun > value_ ? begun : value_ + 0.1 * (end - value_);
}

JobState Jobs::state_of(const Job& job) {
  return {.id = job.id,
          .is_queued = job.state == Job::State::queued,
          .runs = shell_line(job.command_line),
          .since = job.since,
          .seconds = seconds_since(job.begun),
          .says = job.progress.line()};
}

Result<Job*> Jobs::start(const Tool& tool, const Asked& asked) {
  const auto unfinished = static_cast<std::size_t>(
      std::count_if(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.state != Job::State::ended; }));
  if (unfinished >= most_unfinished) {
    return Diagnostic{.message = fmt::format("{} jobs are not done yet", unfinished),
                      .fix = fmt::format("wait for one of them, or stop it; the resource {} lists them", jobs_uri),
                      .code = codes::usage_job};
  }
  forget_the_oldest();
  Job& job = jobs_.emplace_back();
  job.id = new_id(tool);
  job.tool = &tool;
  job.project = asked.project;
  job.command_line = asked.command_line;
  job.since = now_as_text();
  job.begun = std::chrono::steady_clock::now();
  tick();
  return &job;
}

Job* Jobs::find(const std::string& id) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.id == id; });
  return found == jobs_.end() ? nullptr : &*found;
}

void Jobs::begin(Job& job) {
  auto child = launch_(job.command_line);
  if (!child) return end(job, error_answer(*job.tool, child.error()));
  job.child = std::move(*child);
  job.state = Job::State::running;
}

void Jobs::end(Job& job, ToolAnswer answer) {
  job.answer = std::move(answer);
  if (job.child) job.log = kept_of(job.child->log());
  job.child.reset();
  job.state = Job::State::ended;
}

void Jobs::stop(Job& job, const char* why) {
  if (job.state == Job::State::ended) return;
  if (job.child) job.child->ask_to_end();
  end(job, error_answer(*job.tool, {.message = fmt::format("the job was ended: {}", why),
                                    .fix = "call the tool again",
                                    .code = codes::interrupted}));
}

void Jobs::tick() {
  bool is_measuring = false;
  for (Job& job : jobs_) {
    if (job.state != Job::State::running) continue;
    const std::string& log = job.child->log();
    const bool has_ended = job.child->has_ended();
    for (std::size_t end = log.find('\n', job.log_read); end != std::string::npos; end = log.find('\n', job.log_read)) {
      job.progress.take(log.substr(job.log_read, end - job.log_read));
      job.log_read = end + 1;
    }
    if (has_ended) {
      end(job, mcp::answer_of(*job.tool, job.child->finished()));
    } else if (seconds_since(job.begun) > longest_seconds) {
      stop(job, "it took more than four hours");
    } else {
      is_measuring = is_measuring || job.tool->measures;
    }
  }
  for (Job& job : jobs_) {
    if (job.state != Job::State::queued || (is_measuring && job.tool->measures)) continue;
    begin(job);
    is_measuring = is_measuring || (job.tool->measures && job.state == Job::State::running);
  }
}

bool Jobs::is_busy() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.state != Job::State::ended; });
}

void Jobs::ask_all_to_end() {
  for (Job& job : jobs_) {
    if (job.child) job.child->ask_to_end();
  }
}

void Jobs::forget_the_oldest() {
  while (jobs_.size() >= most_kept) {
    const auto oldest =
        std::find_if(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.state == Job::State::ended; });
    if (oldest == jobs_.end()) return;
    jobs_.erase(oldest);
  }
}

}  // namespace flashmoe::workflow::mcp
