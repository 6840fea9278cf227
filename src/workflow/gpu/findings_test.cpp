#include "workflow/gpu/findings.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace flashmoe::workflow {
namespace {

// As the virtual GPU writes it.
std::vector<LaunchReport> read(const std::string& line) {
  const ReportFile report;
  std::ofstream(report.path()) << line << "\n";
  return read_launches(report.path());
}

constexpr const char* party =
    R"({"what":"a","source_file":"k.cu","source_line":LINE,"block":[0,0,0],"thread":[3,0,0]})";

std::string finding(const std::string& check, const std::string& cause, const std::string& message, int line,
                    const std::string& more = "") {
  std::string at = party;
  at.replace(at.find("LINE"), 4, std::to_string(line));
  return R"({"check":")" + check + R"(","cause":")" + cause + R"(","message":")" + message +
         R"(","kernel":"sum","at":)" + at + more + "}";
}

TEST(VirtualFindings, WhatExplainsOthersComesFirst) {
  const auto found = virtual_findings(
      read(R"({"kernel":"k","findings":[)" + finding("racecheck", "lanes", "race within a warp", 9) + "," +
           finding("initcheck", "value", "never set", 8) + "," + finding("racecheck", "order", "race", 9) + "," +
           finding("memcheck", "access", "read outside", 7) + "]}"));
  ASSERT_EQ(found.findings.size(), 4u);
  EXPECT_TRUE(found.findings[0].what.starts_with("read outside"));
  EXPECT_TRUE(found.findings[1].what.starts_with("race (sum"));
  EXPECT_TRUE(found.findings[2].what.starts_with("race within a warp"));
  EXPECT_TRUE(found.findings[3].what.starts_with("never set"));
  EXPECT_EQ(found.first, "memcheck: read outside at k.cu:7");
}

TEST(VirtualFindings, BuffersHaveTheNamesOfTheProject) {
  const std::string line =
      R"({"kernel":"_Z3sumPf","findings":[)" +
      finding("memcheck", "access", "read of 4 bytes 0 bytes past the end of cuMemAlloc #22 (4096 bytes)", 7,
              R"(,"buffer":{"what":"cuMemAlloc #22","bytes":4096,"offset":4096,"argument":1})") +
      "]}";
  const auto found = virtual_findings(read(line), {{"_Z3sumPf", {"", "q"}}});
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].what,
            "read of 4 bytes 0 bytes past the end of 'q' (4096 bytes), at q + 4,096 bytes (sum, block [0,0,0] thread "
            "[3,0,0])");
  const std::string before =
      R"({"kernel":"_Z3sumPf","findings":[)" +
      finding("memcheck", "access", "read of 4 bytes 4096 bytes before cuMemAlloc #22 (4096 bytes)", 7,
              R"(,"buffer":{"what":"cuMemAlloc #22","bytes":4096,"offset":-4096,"argument":1})") +
      "]}";
  EXPECT_EQ(virtual_findings(read(before), {{"_Z3sumPf", {"", "q"}}}).findings[0].what,
            "read of 4 bytes 4096 bytes before 'q' (4096 bytes), at q - 4,096 bytes (sum, block [0,0,0] thread "
            "[3,0,0])");
  // Of an argument that is no tensor, or of a kernel that is not the project's, the driver's name has to do.
  for (const ArgumentNames& names : {ArgumentNames{{"_Z3sumPf", {"q", ""}}}, ArgumentNames{}})
    EXPECT_NE(virtual_findings(read(line), names).findings[0].what.find("cuMemAlloc #22"), std::string::npos);
}

// Brackets are also a part of names and of what is said.
TEST(VirtualFindings, AMessageIsWhole) {
  const std::string message = "written in f<(Mode)1, (Mode)2> (4096 bytes)";
  const auto found =
      virtual_findings(read(R"({"kernel":"k","findings":[)" + finding("memcheck", "access", message, 7) + "]}"));
  EXPECT_EQ(found.messages, std::vector<std::string>{message});
  EXPECT_EQ(found.findings[0].what, message + " (sum, block [0,0,0] thread [3,0,0])");
}

TEST(VirtualFindings, AFaultIsNotToldTwice) {
  const std::string polls = finding("synccheck", "standstill", "polls for a value that nobody writes", 7);
  const auto found = virtual_findings(read(R"({"kernel":"k","fault":"kernel k: polls","findings":[)" + polls + "]}"));
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].group, "synccheck");
  EXPECT_EQ(found.faults.size(), 1u);
  const auto alone = virtual_findings(read(R"({"kernel":"k","fault":"kernel k: trap","findings":[]})"));
  ASSERT_EQ(alone.findings.size(), 1u);
  EXPECT_EQ(alone.findings[0].group, "fault");
  EXPECT_EQ(alone.messages, std::vector<std::string>{"kernel k: trap"});
}

}  // namespace
}  // namespace flashmoe::workflow
