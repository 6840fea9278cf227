#include "workflow/agents/instructions.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

class Instructions : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path at(const std::string& name) const { return directory_.path() / name; }
  [[nodiscard]] std::string text(const std::string& name) const { return whole_file(at(name).string()).value_or(""); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(at(name), std::ios::binary) << content;
  }
  [[nodiscard]] auto init(const std::string& version = "1.0") const {
    return write_instructions(directory_.path().string(), version);
  }
  [[nodiscard]] std::vector<SectionState> states(const std::string& version = "1.0") const {
    std::vector<SectionState> found;
    const auto files = check_instructions(directory_.path().string(), version);
    if (files)
      for (const InstructionFile& file : *files) found.push_back(file.before);
    return found;
  }
  void expect_refused() const {
    const auto refused = init();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, codes::agents_file_refused);
    EXPECT_FALSE(check_instructions(directory_.path().string(), "1.0"));
  }

  TemporaryDirectory directory_{};
};

TEST_F(Instructions, AreWrittenOnceAndThenTheSame) {
  EXPECT_EQ(states(), (std::vector{SectionState::missing, SectionState::missing}));
  ASSERT_TRUE(init());
  const std::string agents = text("AGENTS.md"), skill = text("SKILL.md");
  EXPECT_NE(agents.find("cudadent brief"), std::string::npos);
  EXPECT_TRUE(skill.starts_with("---\nname: cudadent\n")) << "what loaders of skills look for";
  const auto again = init();
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::none_of(again->begin(), again->end(), [](const InstructionFile& file) { return file.written; }));
  EXPECT_EQ(text("AGENTS.md"), agents);
  EXPECT_EQ(text("SKILL.md"), skill);
  EXPECT_EQ(states(), (std::vector{SectionState::current, SectionState::current}));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()), 2) << "nothing else";
}

TEST_F(Instructions, ArePageLong) {
  ASSERT_TRUE(init());
  const std::string agents = text("AGENTS.md");
  EXPECT_LE(std::count(agents.begin(), agents.end(), '\n'), 50);
  EXPECT_LE(agents.size(), 4000U);
}

TEST_F(Instructions, WhatStandsOutsideStays) {
  write("AGENTS.md", "# Mine\nno newline at the end");
  ASSERT_TRUE(init());
  const std::string first = text("AGENTS.md");
  EXPECT_TRUE(first.starts_with("# Mine\nno newline at the end\n\n<!-- cudadent agents: begin, version 1.0;"));
  write("AGENTS.md", first + "and more of mine\r\n");
  ASSERT_TRUE(init("2.0"));
  const std::string second = text("AGENTS.md");
  EXPECT_TRUE(second.starts_with("# Mine\nno newline at the end\n\n<!-- cudadent agents: begin, version 2.0;"));
  EXPECT_TRUE(second.ends_with("<!-- cudadent agents: end -->\nand more of mine\r\n"));
}

TEST_F(Instructions, AnotherVersionAndAnEditAreTold) {
  ASSERT_TRUE(init("1.0"));
  EXPECT_EQ(states("1.1"), (std::vector{SectionState::other_version, SectionState::other_version}));
  std::string edited = text("AGENTS.md");
  edited.replace(edited.find("one change at a time"), 3, "ten");
  write("AGENTS.md", edited);
  EXPECT_EQ(states().front(), SectionState::edited);
  ASSERT_TRUE(init());
  EXPECT_EQ(states().front(), SectionState::current);
}

TEST_F(Instructions, ALinkIsRefusedAndNothingIsWritten) {
  write("elsewhere.md", "untouched");
  fs::create_symlink(at("elsewhere.md"), at("SKILL.md"));
  expect_refused();
  EXPECT_EQ(text("elsewhere.md"), "untouched");
  EXPECT_FALSE(fs::exists(at("AGENTS.md"))) << "neither of both";
}

TEST_F(Instructions, ALinkToNowhereIsRefused) {
  fs::create_symlink(at("nowhere.md"), at("AGENTS.md"));
  expect_refused();
  EXPECT_FALSE(fs::exists(at("nowhere.md")));
}

TEST_F(Instructions, MarkersThatDoNotPairAreRefused) {
  for (const char* content : {"<!-- cudadent agents: begin, version 1.0; x -->\n", "<!-- cudadent agents: end -->\n",
                              "<!-- cudadent agents: end -->\n<!-- cudadent agents: begin, version 1.0; x -->\n"}) {
    write("AGENTS.md", content);
    expect_refused();
    EXPECT_EQ(text("AGENTS.md"), content);
  }
}

TEST_F(Instructions, ADirectoryAndWhatIsTooLargeAreRefused) {
  fs::create_directory(at("AGENTS.md"));
  expect_refused();
  fs::remove(at("AGENTS.md"));
  write("AGENTS.md", std::string((1 << 20) + 1, 'x'));
  expect_refused();
}

TEST_F(Instructions, PermissionsStay) {
  write("AGENTS.md", "mine\n");
  ASSERT_EQ(::chmod(at("AGENTS.md").c_str(), 0600), 0);
  ASSERT_TRUE(init());
  EXPECT_EQ(fs::status(at("AGENTS.md")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace
}  // namespace flashmoe::workflow
