// A stand-in for a preprocessor counts how often it is asked.
#include "workflow/compile/preprocess.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/temporary_directory.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

class Preprocess : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(directory_ / "project/include");
    write("project/kernel.cu", "one");
    write("project/include/part.h", "part");
    write("preprocessor",
          "#!/bin/sh\n"
          "echo >>../asked\n"
          "echo '# 1 \"kernel.cu\"'; cat kernel.cu\n"
          "echo '# 1 \"<built-in>\"'\n"
          "echo '# 1 \"include/part.h\" 1'; cat include/part.h\n");
    fs::permissions(directory_ / "preprocessor", fs::perms::owner_all);
    grow_old();
  }

  void write(const std::string& name, const std::string& text) { std::ofstream(directory_ / name) << text; }
  // What was written a moment ago might be written again without a trace.
  static void grow_old() { std::this_thread::sleep_for(std::chrono::milliseconds(80)); }

  Command command(const std::string& word = "-E") const {
    return {.argv = {(directory_ / "preprocessor").string(), word, "-Iinclude"},
            .directory = (directory_ / "project").string()};
  }

  std::string answer(const Command& asked) const {
    const auto ran = preprocess(asked);
    return ran && ran->ok() ? ran->out : "failed";
  }

  std::uintmax_t times_asked() const { return fs::file_size(directory_ / "asked"); }

  TemporaryDirectory owner_;
  fs::path directory_ = owner_.path();
};

TEST_F(Preprocess, AsksOnceWhileNothingChanges) {
  const std::string first = answer(command());
  EXPECT_NE(first.find("one"), std::string::npos);
  EXPECT_EQ(answer(command()), first);
  EXPECT_EQ(times_asked(), 1U);
}

TEST_F(Preprocess, AsksAgainWhenAFileItReadChanged) {
  (void)answer(command());
  write("project/include/part.h", "trap");  // as long as before
  EXPECT_NE(answer(command()).find("trap"), std::string::npos);
  EXPECT_EQ(times_asked(), 2U);
}

TEST_F(Preprocess, AsksAgainWhenTheOldTimeWasPutBack) {
  (void)answer(command());
  const auto before = fs::last_write_time(directory_ / "project/kernel.cu");
  write("project/kernel.cu", "two");
  fs::last_write_time(directory_ / "project/kernel.cu", before);
  EXPECT_NE(answer(command()).find("two"), std::string::npos);
}

TEST_F(Preprocess, AsksAgainWhenAFileCameBeside) {
  (void)answer(command());
  write("project/include/part.hpp", "hides another");
  (void)answer(command());
  EXPECT_EQ(times_asked(), 2U);
}

TEST_F(Preprocess, WhatIsStillYoungIsNotRemembered) {
  // Where the machine is so busy that the file was old before the question began, the next attempt is.
  std::uintmax_t asked = 0;
  for (int attempt = 0; attempt < 50 && asked != 2; ++attempt) {
    const std::uintmax_t before = attempt == 0 ? 0 : times_asked();
    write("project/kernel.cu", "new");
    (void)answer(command());
    (void)answer(command());
    asked = times_asked() - before;
  }
  EXPECT_EQ(asked, 2U);
}

TEST_F(Preprocess, OtherWordsAreAnotherQuestion) {
  (void)answer(command());
  (void)answer(command("-D"));
  EXPECT_EQ(times_asked(), 2U);
}

TEST_F(Preprocess, AFailureIsNotRemembered) {
  fs::remove(directory_ / "project/include/part.h");
  grow_old();
  EXPECT_EQ(answer(command()), "failed");
  write("project/include/part.h", "back");
  EXPECT_NE(answer(command()).find("back"), std::string::npos);
}

TEST(FilesRead, NamesEachOnceAndNoPseudoFiles) {
  EXPECT_EQ(files_read("# 1 \"b.h\" 1 3\nint x;\n# 0 \"<command-line>\"\n# 1 \"/work//\"\n# 7 \"a.h\" 2\n# 9 \"b.h\"\n"
                       "#pragma once \"c.h\"\n"),
            (std::vector<std::string>{"a.h", "b.h"}));
  EXPECT_TRUE(files_read("").empty());
}

}  // namespace
}  // namespace flashmoe::workflow
