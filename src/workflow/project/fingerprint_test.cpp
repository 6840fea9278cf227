#include "workflow/project/fingerprint.hpp"

#include <gtest/gtest.h>

#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {
namespace {

TEST(Fingerprint, SeesWhatWasChangedAddedAndTakenAway) {
  const ProjectForTest at;
  std::filesystem::create_directories(at.project.directory + "/.cudadent");
  std::filesystem::create_directories(at.project.directory + "/parts");
  at.write("kernel.cpp", "1");
  at.write("parts/helper.py", "1");
  at.write("gone.h", "1");
  const Fingerprint before = fingerprint_of(at.project);
  EXPECT_EQ(before.size(), 3U);
  EXPECT_TRUE(changes(before, fingerprint_of(at.project)).empty());
  at.write(".cudadent/own.py", "1");
  at.write("notes.txt", "1");
  EXPECT_TRUE(changes(before, fingerprint_of(at.project)).empty()) << "they take no part";
  at.write("parts/helper.py", "2");
  at.write("numpy.py", "1");
  std::filesystem::remove(at.project.directory + "/gone.h");
  EXPECT_EQ(
      changes(before, fingerprint_of(at.project)),
      (std::vector<std::string>{"numpy.py was not there before", "parts/helper.py was changed", "gone.h is gone"}));
}

}  // namespace
}  // namespace flashmoe::workflow
