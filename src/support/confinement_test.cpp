#include "support/confinement.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/process.hpp"

namespace flashmoe {
namespace {

namespace fs = std::filesystem;

class ConfinementTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "confinement_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    for (const char* directory : {"project", "scratch", "home"}) fs::create_directory(root_ / directory);
    std::ofstream(root_ / "project" / "source") << "to be read\n";
    std::ofstream(root_ / "home" / "key") << "secret\n";
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] Finished run(const std::string& script) const {
    const auto ran = run_process({.argv = {"/bin/sh", "-c", script},
                                  .directory = (root_ / "project").string(),
                                  .short_environment = true,
                                  .confinement = Confinement{.readable = {(root_ / "project").string()},
                                                             .writable = {(root_ / "scratch").string()}}});
    EXPECT_TRUE(ran) << ran.error().message;
    return ran ? *ran : Finished{};
  }

  fs::path root_{};
};

TEST_F(ConfinementTest, ReadsAndWritesWhatItMay) {
  const Finished ran = run("cat source && echo made > ../scratch/file && cat ../scratch/file && : > /dev/null");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "to be read\nmade\n");
}

TEST_F(ConfinementTest, TouchesNothingElse) {
  if (landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock: " << confinement_here();
  for (const char* script :
       {"echo x > file", "echo x >> source", "echo x > ../outside", "rm source", "mkdir directory",
        "mv source ../scratch/", "cat ../home/key", "ls ../home", "ln -s source link", "ln source ../scratch/link"}) {
    EXPECT_NE(run(script).exit_code, 0) << script;
  }
  EXPECT_TRUE(fs::exists(root_ / "project" / "source"));
  EXPECT_FALSE(fs::exists(root_ / "outside") || fs::exists(root_ / "project" / "file"));
}

TEST_F(ConfinementTest, OpensNoSocket) {
  const std::string program =
      "import socket, sys\nfor family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):\n"
      "    try:\n        socket.socket(family)\n    except PermissionError:\n        continue\n"
      "    sys.exit(9)\n";
  if (run("test -x /usr/bin/python3").exit_code != 0) GTEST_SKIP() << "no /usr/bin/python3";
  const Finished ran = run("/usr/bin/python3 -I -B -c '" + program + "'");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
}

// Memory, queues and keys that another process finds by a number or a name.
TEST_F(ConfinementTest, SharesNothingByName) {
  const std::string program =
      "import ctypes, errno, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
      "calls = (libc.shmget(4242, 4096, 0o1600), libc.msgget(4242, 0o1600), libc.semget(4242, 1, 0o1600),\n"
      "         libc.mq_open(b\"/confinement-test\", 0o102, 0o600, None), libc.syscall(" +
      std::to_string(__NR_add_key) + ", b\"user\", b\"confinement-test\", b\"x\", 1, -5))\n" +
      "sys.exit(0 if all(call == -1 for call in calls) and ctypes.get_errno() == errno.EACCES else 9)\n";
  if (run("test -x /usr/bin/python3").exit_code != 0) GTEST_SKIP() << "no /usr/bin/python3";
  const Finished ran = run("/usr/bin/python3 -I -B -c '" + program + "'");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
}

TEST_F(ConfinementTest, SeesAShortEnvironment) {
  ::setenv("CONFINEMENT_TEST_TOKEN", "secret", 1);
  ::setenv("CUDADENT_RUN", "tuesday", 1);
  const Finished ran = run("env");
  EXPECT_EQ(ran.out.find("secret"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("CUDADENT_RUN=tuesday"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("PATH="), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace flashmoe
