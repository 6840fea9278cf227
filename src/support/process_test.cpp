#include "support/process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/whole_file.hpp"

namespace flashmoe {
namespace {

using std::chrono::milliseconds;

// Processes whose command line has `marker`, zombies left out (their command line is empty).
int count_with(const std::string& marker) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string text = whole_file(entry.path() / "cmdline").value_or("");
    if (text.find(marker) != std::string::npos && text.find("process_test") == std::string::npos) ++count;
  }
  return count;
}

// Far longer than anything here takes: only what never happens may reach it, not a machine that stalls.
constexpr milliseconds patience{30'000};

int settled_count(const std::string& marker, int wanted) {
  const auto until = std::chrono::steady_clock::now() + patience;
  int count = count_with(marker);
  while (count != wanted && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(20));
    count = count_with(marker);
  }
  return count;
}

constexpr int family_size = 3;  // the shell and both sleeps

std::string unique_seconds() {
  static int calls = 0;
  return "7" + std::to_string(getpid()) + "." + std::to_string(++calls);
}

// A shell that leaves a child in its group and one in a session of its own.
Command family(const std::string& seconds, milliseconds limit = milliseconds(60'000)) {
  return {.argv = {"sh", "-c", "sleep " + seconds + " & setsid sleep " + seconds + " & wait"}, .limit = limit};
}

TEST(RunProcess, CapturesBothStreamsAndTheExitCode) {
  const auto finished = run_process({.argv = {"sh", "-c", "echo out; echo err >&2; exit 3"}});
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->out, "out\n");
  EXPECT_EQ(finished->err, "err\n");
  EXPECT_EQ(finished->exit_code, 3);
  EXPECT_EQ(finished->describe(), "exit code 3");
  EXPECT_FALSE(finished->ok());
}

TEST(RunProcess, TakesDirectoryAndEnvironment) {
  setenv("PROCESS_TEST_GONE", "1", 1);
  const auto finished = run_process({.argv = {"sh", "-c", "pwd; echo \"$PROCESS_TEST_SET-$PROCESS_TEST_GONE\""},
                                     .directory = "/",
                                     .environment = {"PROCESS_TEST_SET=a", "PROCESS_TEST_GONE"}});
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->out, "/\na-\n");
}

TEST(RunProcess, NamesAProgramThatIsNotThere) {
  const auto finished = run_process({.argv = {"no-such-program-here"}});
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().message.find("no-such-program-here"), std::string::npos);
  EXPECT_NE(finished.error().message.find("No such file"), std::string::npos);
}

TEST(RunProcess, NamesTheSignalOfACrash) {
  const auto finished = run_process({.argv = {"sh", "-c", "kill -SEGV $$"}});
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->describe(), "killed by SIGSEGV (crash)");
}

TEST(RunProcess, KillsEverybodyWhenTheLimitPasses) {
  const std::string seconds = unique_seconds();
  const auto finished = run_process(family(seconds, milliseconds(400)));
  ASSERT_TRUE(finished);
  EXPECT_TRUE(finished->timed_out);
  EXPECT_LT(finished->seconds, 60);  // the children would sleep for days
  EXPECT_EQ(settled_count(seconds, 0), 0);
}

TEST(RunProcess, LeavesNoBackgroundChildOfAShellThatEnded) {
  const std::string seconds = unique_seconds();
  const auto finished =
      run_process({.argv = {"sh", "-c", "sleep " + seconds + " & setsid sleep " + seconds + " & exit 0"}});
  ASSERT_TRUE(finished);
  EXPECT_TRUE(finished->ok());
  EXPECT_EQ(settled_count(seconds, 0), 0);
}

// What the header promises about kill -9: the parent has no chance to clean up.
TEST(RunProcess, LeavesNothingBehindWhenTheParentIsKilled) {
  const std::string seconds = unique_seconds();
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    static_cast<void>(run_process(family(seconds)));
    _exit(0);
  }
  ASSERT_EQ(settled_count(seconds, family_size), family_size);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_EQ(settled_count(seconds, 0), 0);
}

TEST(RunProcess, CallsIdleWhileItRuns) {
  int calls = 0;
  const auto finished = run_process({.argv = {"sleep", "1.5"}}, [&] { ++calls; });
  ASSERT_TRUE(finished);
  EXPECT_GE(calls, 2);
}

TEST(Conversation, TalksInLines) {
  auto talk = Conversation::start({.argv = {"cat"}});
  ASSERT_TRUE(talk);
  ASSERT_TRUE(talk->send("one"));
  ASSERT_TRUE(talk->send("two"));
  EXPECT_EQ(*talk->receive(patience), "one");
  EXPECT_EQ(*talk->receive(patience), "two");
  EXPECT_TRUE(talk->stop().ok());
}

TEST(Conversation, SaysHowTheChildEnded) {
  auto talk = Conversation::start({.argv = {"sh", "-c", "echo why >&2; kill -ABRT $$"}});
  ASSERT_TRUE(talk);
  const auto line = talk->receive(patience);
  ASSERT_FALSE(line);
  EXPECT_EQ(talk->finished().signal, SIGABRT);
  EXPECT_EQ(talk->finished().err, "why\n");
}

TEST(Conversation, KillsAChildThatIsTooLate) {
  const std::string seconds = unique_seconds();
  auto talk = Conversation::start(family(seconds));
  ASSERT_TRUE(talk);
  const auto line = talk->receive(milliseconds(300));
  ASSERT_FALSE(line);
  EXPECT_TRUE(talk->finished().timed_out);
  EXPECT_EQ(settled_count(seconds, 0), 0);
}

TEST(Conversation, DiesWithItsObject) {
  const std::string seconds = unique_seconds();
  {
    auto talk = Conversation::start(family(seconds));
    ASSERT_TRUE(talk);
    ASSERT_EQ(settled_count(seconds, family_size), family_size);
  }
  EXPECT_EQ(settled_count(seconds, 0), 0);
}

TEST(Conversation, IsWatchedWithoutBeingEnded) {
  auto talk = Conversation::start({.argv = {"sh", "-c", "echo begun >&2; read line; echo $line; exit 3"}});
  ASSERT_TRUE(talk);
  while (talk->finished().err.empty()) ASSERT_FALSE(talk->ends_within(milliseconds(0)));
  EXPECT_EQ(talk->finished().err, "begun\n");
  ASSERT_TRUE(talk->send("last words"));
  ASSERT_TRUE(talk->ends_within(patience));
  EXPECT_TRUE(talk->ends_within(milliseconds(0)));
  const Finished finished = talk->stop();
  EXPECT_EQ(finished.exit_code, 3);
  EXPECT_EQ(finished.out, "last words\n");
}

TEST(Conversation, EndsByItselfWhenAsked) {
  auto talk = Conversation::start({.argv = {"sh", "-c", "trap 'echo tidy; exit 5' TERM; echo ready >&2; read line"}});
  ASSERT_TRUE(talk);
  while (talk->finished().err.empty()) ASSERT_FALSE(talk->ends_within(milliseconds(0)));
  talk->ask_to_end();
  ASSERT_TRUE(talk->ends_within(patience));
  talk->ask_to_end();  // of no meaning now
  const Finished finished = talk->stop();
  EXPECT_EQ(finished.exit_code, 5);
  EXPECT_EQ(finished.out, "tidy\n");
}

TEST(Conversation, GivesOnlyTheNamedDescriptors) {
  std::array<int, 2> kept{};
  std::array<int, 2> other{};
  ASSERT_EQ(pipe(kept.data()), 0);
  ASSERT_EQ(pipe(other.data()), 0);
  const std::string script = "[ -e /proc/self/fd/" + std::to_string(kept[0]) + " ] && [ ! -e /proc/self/fd/" +
                             std::to_string(other[0]) + " ] && echo good";
  auto talk = Conversation::start({.argv = {"sh", "-c", script}}, {kept[0]});
  ASSERT_TRUE(talk);
  const auto line = talk->receive(patience);
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "good");
  for (const int fd : {kept[0], kept[1], other[0], other[1]}) close(fd);
}

// In a child of its own, since the flag of an interrupt stays set.
TEST(Interrupt, KillsAllGroupsAndIsSeen) {
  const std::string seconds = unique_seconds();
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    install_interrupt_handler();
    const auto finished = run_process(family(seconds));
    _exit(finished && finished->interrupted && interrupted() ? 0 : 1);
  }
  ASSERT_EQ(settled_count(seconds, family_size), family_size);
  kill(parent, SIGINT);
  int status = -1;
  waitpid(parent, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(settled_count(seconds, 0), 0);
}

}  // namespace
}  // namespace flashmoe
