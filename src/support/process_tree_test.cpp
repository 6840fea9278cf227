#include "support/process_tree.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "support/process.hpp"

namespace flashmoe {
namespace {

using std::chrono::milliseconds;

// Only what never happens may reach it, not a machine that stalls.
constexpr milliseconds tree_patience{30'000};

// A shell that computes, beside one in its group and one in a session of its own; it says when all three run.
const Command busy_family{.argv = {"sh", "-c",
                                   "spin='echo on; while :; do :; done'; sh -c \"$spin\" & setsid sh -c \"$spin\" & "
                                   "eval \"$spin\""}};

struct BusyFamily {
  Result<Conversation> talk = Conversation::start(busy_family);
  ProcessTree tree;

  bool is_up() {
    if (!talk) return false;
    for (int member = 0; member < 3; ++member) {
      if (!talk->receive(tree_patience)) return false;
    }
    tree = ProcessTree(talk->supervisor());
    return true;
  }
};

TEST(ProcessTree, StopsAlsoWhoLeftTheSessionAndGoesOn) {
  BusyFamily family;
  ASSERT_TRUE(family.is_up());
  family.tree.tell_to_stop();
  ASSERT_TRUE(family.tree.wait_until_stopped(tree_patience));
  const double stopped = family.tree.cpu_seconds();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_NEAR(family.tree.cpu_seconds(), stopped, 1e-4);

  family.tree.resume();
  const auto until = std::chrono::steady_clock::now() + tree_patience;
  while (family.tree.cpu_seconds() < stopped + 0.01 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_GE(family.tree.cpu_seconds(), stopped + 0.01);
}

TEST(ProcessTree, FindsWhoWasNotKnownWhenItWasTold) {
  BusyFamily family;
  ASSERT_TRUE(family.talk);
  const ProcessTree before(family.talk->supervisor());
  ASSERT_TRUE(family.is_up());
  family.tree = before;  // at most the shell, which had hardly begun
  ASSERT_TRUE(family.tree.wait_until_stopped(tree_patience));
  const ProcessTree all(family.talk->supervisor());
  const double stopped = all.cpu_seconds();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_NEAR(all.cpu_seconds(), stopped, 1e-4);
}

// How far a tree came while it was let run for some milliseconds of processor time.
std::pair<Work, Work> around_some_work(ProcessTree& tree) {
  tree.tell_to_stop();
  EXPECT_TRUE(tree.wait_until_stopped(tree_patience));
  const Work before = tree.work();
  tree.resume();
  const auto until = std::chrono::steady_clock::now() + tree_patience;
  while (tree.cpu_seconds() < before.cpu_seconds + 0.005 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  tree.tell_to_stop();
  EXPECT_TRUE(tree.wait_until_stopped(tree_patience));
  return {before, tree.work()};
}

TEST(ProcessTree, TellsTheWorkOfOneThreadFromThatOfMany) {
  auto alone = Conversation::start({.argv = {"sh", "-c", "echo on; while :; do :; done"}});
  ASSERT_TRUE(alone && alone->receive(tree_patience));
  ProcessTree tree(alone->supervisor());
  const auto [before, after] = around_some_work(tree);
  EXPECT_TRUE(one_thread_ran(before, after));
  EXPECT_GE(after.first_thread_seconds - before.first_thread_seconds, 0.005);
  ASSERT_GE(before.waits, 0);
  EXPECT_LE(after.waits - before.waits, 2) << "the stop, and what may have been pending";

  BusyFamily family;
  ASSERT_TRUE(family.is_up());
  const auto [family_before, family_after] = around_some_work(family.tree);
  EXPECT_FALSE(one_thread_ran(family_before, family_after));
}

TEST(ProcessTree, OfNobodyIsStillAndHasNoTime) {
  ProcessTree nobody;
  EXPECT_TRUE(nobody.wait_until_stopped(tree_patience));
  EXPECT_LT(nobody.cpu_seconds(), 0);
}

}  // namespace
}  // namespace flashmoe
