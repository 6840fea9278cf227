#include "support/whole_file.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace flashmoe {
namespace {

TEST(WholeFile, EveryByteOfAnyLength) {
  const std::string path = testing::TempDir() + "whole_file_test_bytes";
  for (const std::size_t bytes : {0, 1, 16383, 16384, 16385, 50000}) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(whole_file(path), text) << bytes;
  }
  std::remove(path.c_str());
}

TEST(WholeFile, NothingOfWhatCannotBeRead) {
  EXPECT_EQ(whole_file(testing::TempDir() + "whole_file_test_absent"), std::nullopt);
  EXPECT_EQ(whole_file(testing::TempDir()), std::nullopt) << "a directory opens, but is not read";
}

}  // namespace
}  // namespace flashmoe
