#include "support/progress.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace flashmoe {
namespace {

// A pipe whose far end is read after the Progress is gone; the lines of a test fit into its buffer.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  [[nodiscard]] int writer() const { return ends_[1]; }
  [[nodiscard]] std::string text() const {
    std::string all;
    std::array<char, 4096> part{};
    pollfd ready{.fd = ends_[0], .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 0) == 1) {
      const ssize_t n = ::read(ends_[0], part.data(), part.size());
      if (n <= 0) break;
      all.append(part.data(), static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  std::array<int, 2> ends_{};
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// What the pipe says until `part` came `times` times: a machine that stalls makes heartbeats late, not absent.
std::string text_until(const Pipe& pipe, const std::string& part, std::size_t times) {
  std::string all;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (count(all, part) < times && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    all += pipe.text();
  }
  return all;
}

TEST(Progress, WithoutATerminalEachStepIsOneLineAtOnce) {
  Pipe pipe;
  Progress progress(2, {.fd = pipe.writer(), .terminal = false});
  progress.step("build", 30);
  EXPECT_EQ(pipe.text(), "[1/2] build  about 30 s\n") << "the line must not wait for the end of the step";
  progress.update("12/40 sm_89", 0.3);
  progress.step("correctness");
  progress.note("a note");
  EXPECT_EQ(pipe.text(), "[2/2] correctness\na note\n");
}

TEST(Progress, HeartbeatTellsWhatHappensAndHowLongItTook) {
  Pipe pipe;
  {
    Progress progress(1, {.fd = pipe.writer(), .terminal = false, .heartbeat_seconds = 0.05});
    progress.step("measure", 100);
    progress.update("pair 3/24");
    const std::string text = text_until(pipe, " s of about 100 s\n", 2);
    EXPECT_GE(count(text, "[1/1] measure  pair 3/24  "), 2U) << text;
    EXPECT_GE(count(text, " s of about 100 s\n"), 2U) << text;
  }
}

TEST(Progress, NoHeartbeatWhereNothingRuns) {
  Pipe pipe;
  {
    Progress progress(1, {.fd = pipe.writer(), .terminal = false, .heartbeat_seconds = 0.02});
    progress.step("measure");
    progress.done();
    (void)pipe.text();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(pipe.text(), "");
  }
}

TEST(Progress, EnvironmentSetsTheHeartbeat) {
  ::setenv("CUDADENT_HEARTBEAT_SECONDS", "0.05", 1);
  Pipe pipe;
  {
    Progress progress(1, {.fd = pipe.writer(), .terminal = false});
    progress.step("measure");
    EXPECT_GE(count(text_until(pipe, "measure", 3), "measure"), 3U);
  }
  ::unsetenv("CUDADENT_HEARTBEAT_SECONDS");
}

TEST(Progress, ATerminalGetsOneMovingLine) {
  Pipe pipe;
  std::string text;
  {
    Progress progress(3, {.fd = pipe.writer(), .terminal = true});
    progress.step("build", 10);
    progress.update(std::string(500, 'x'));
    text = text_until(pipe, "\r\033[K", 3);
  }
  text += pipe.text();
  EXPECT_GE(count(text, "\r\033[K"), 3U) << "it moves";
  EXPECT_EQ(count(text, "\n"), 1U) << "only the end of the step stays";
  EXPECT_EQ(count(text, std::string(80, 'x')), 0U) << "a line that wraps could not be erased";
  EXPECT_NE(text.rfind("[1/3] build  "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" s\n")) << text;
}

TEST(Progress, TimeRunsOnWhatWasSeenNotOnTheGuess) {
  Pipe pipe;
  {
    Progress progress(1, {.fd = pipe.writer(), .terminal = false, .heartbeat_seconds = 0.1});
    progress.step("measure", 1000);
    progress.update("half", 0.5);
    (void)pipe.text();  // a heartbeat may have come between the two
    const std::string text = text_until(pipe, " s of about ", 2);
    EXPECT_GE(count(text, " s of about "), 2U) << text;
    EXPECT_EQ(count(text, "of about 1000"), 0U) << text;
  }
}

TEST(Progress, QuietIsQuiet) {
  Pipe pipe;
  {
    Progress progress(1, {.fd = pipe.writer(), .quiet = true, .terminal = false, .heartbeat_seconds = 0.02});
    progress.step("measure");
    progress.note("note");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(pipe.text(), "");
}

TEST(Progress, AReaderThatWentAwayDoesNotStopTheWork) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  {
    Progress progress(1, {.fd = ends[1], .terminal = false});
    progress.step("measure");
  }
  std::signal(SIGPIPE, before);
  ::close(ends[1]);
}

TEST(Progress, NoColourWithoutATerminal) {
  Pipe pipe;
  EXPECT_FALSE(may_colour(pipe.writer()));
}

}  // namespace
}  // namespace flashmoe
