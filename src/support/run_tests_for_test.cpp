#include "support/run_tests_for_test.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <string_view>

namespace flashmoe {
namespace {

std::string_view chosen_source(int argc, char** argv) {
  constexpr std::string_view flag = "--source=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(flag)) return argument.substr(flag.size());
  }
  return {};
}

bool stands_in(const testing::TestInfo& test, std::string_view source) {
  const std::string_view file = test.file();
  return file == source || file.ends_with("/" + std::string(source));
}

// Leaves out what other sources have: a filter that somebody gave still counts. False when the source has no test.
bool leave_out_other_sources(std::string_view source) {
  std::string others;
  bool has_tests = false;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (stands_in(test, source)) {
        has_tests = true;
      } else {
        others.append(":").append(suite.name()).append(".").append(test.name());
      }
    }
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  if (filter.find('-') == std::string::npos) filter += "-";
  filter += others;
  return has_tests;
}

}  // namespace

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string_view source = chosen_source(argc, argv);
  if (!source.empty() && !leave_out_other_sources(source)) {
    std::cerr << argv[0] << ": no test stands in " << source << "\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}

}  // namespace flashmoe
