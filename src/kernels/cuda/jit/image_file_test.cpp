// The file format: what pack_image made is read back, anything else is refused.
#include "kernels/cuda/jit/image_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/jit/jit_testing.hpp"
#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

using testing::file_bytes;
using testing::ScratchFolder;
using testing::write_bytes;

const std::string a_key = sha256_hex("a key");

std::vector<char> some_payload(std::size_t bytes = 1000) {
  std::mt19937 random(7);
  std::vector<char> payload(bytes);
  for (char& byte : payload) byte = static_cast<char>(random());
  return payload;
}

TEST(ImageFile, ComesBack) {
  for (const std::size_t bytes : {1, 63, 1000, 100'000}) {
    const std::vector<char> payload = some_payload(bytes), file = pack_image(a_key, payload);
    EXPECT_EQ(file.size(), image_header_bytes + bytes);
    EXPECT_EQ(unpack_image(a_key, file), payload);
  }
}

TEST(ImageFile, AnEmptyPayloadIsNoImage) {
  EXPECT_FALSE(unpack_image(a_key, pack_image(a_key, {})));
}

TEST(ImageFile, EveryLengthButTheRightOneIsRefused) {
  std::vector<char> file = pack_image(a_key, some_payload());
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes)
    EXPECT_FALSE(unpack_image(a_key, std::span(file).first(bytes))) << bytes;
  file.push_back(0);
  EXPECT_FALSE(unpack_image(a_key, file));
}

TEST(ImageFile, EveryFlippedBitIsSeen) {
  std::vector<char> file = pack_image(a_key, some_payload(50));
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      file[at] = static_cast<char>(file[at] ^ (1 << bit));
      EXPECT_FALSE(unpack_image(a_key, file)) << at << " bit " << bit;
      file[at] = static_cast<char>(file[at] ^ (1 << bit));
    }
  }
  EXPECT_TRUE(unpack_image(a_key, file));
}

TEST(ImageFile, ANeighboursFileIsRefused) {
  EXPECT_FALSE(unpack_image(a_key, pack_image(sha256_hex("another key"), some_payload())));
}

// Lengths of any size in the header, random bytes over it, pieces of another file: none passes, none crashes.
TEST(ImageFile, DamageOfAnyKindIsRefused) {
  const std::vector<char> good = pack_image(a_key, some_payload(300));
  const std::vector<char> other = pack_image(sha256_hex("another key"), some_payload(500));
  std::mt19937 random(11);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<char> file = good;
    for (std::size_t edits = below(4) + 1; edits > 0; --edits) {
      const std::size_t at = below(3) == 0 ? below(file.size()) : below(std::min(image_header_bytes, file.size()));
      switch (below(4)) {
        case 0:  // a few random bytes
          for (std::size_t i = at; i < std::min(file.size(), at + 8); ++i) file[i] = static_cast<char>(random());
          break;
        case 1:  // extreme values
          for (std::size_t i = at; i < std::min(file.size(), at + 8); ++i)
            file[i] = static_cast<char>(round % 2 == 0 ? 0xff : 0);
          break;
        case 2:  // the rest of another file
          file.resize(at);
          file.insert(file.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
          break;
        default:
          file.resize(at + 1);
      }
    }
    const auto unpacked = unpack_image(a_key, file);
    ASSERT_TRUE(!unpacked || file == good) << round;
    refused += unpacked ? 0 : 1;
  }
  EXPECT_GT(refused, 19'000);
}

TEST(ImageFile, WritingReplacesWhatWasThere) {
  const ScratchFolder folder;
  const PrivateDirectory directory(folder.path());
  write_bytes(folder.path() + "/image", {'o', 'l', 'd'});
  ASSERT_TRUE(write_image_file(directory, "image", a_key, some_payload()));
  EXPECT_EQ(read_image_file(directory, "image", a_key), some_payload());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "something was left behind";
}

TEST(ImageFile, WhatCannotBeWrittenLeavesNothingBehind) {
  const ScratchFolder folder;
  const PrivateDirectory directory(folder.path());
  EXPECT_FALSE(write_image_file(directory, "nowhere/image", a_key, some_payload()));
  std::filesystem::create_directory(folder.path() + "/image");
  EXPECT_FALSE(write_image_file(directory, "image", a_key, some_payload()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ImageFile, WhatIsNoFileIsNotRead) {
  const ScratchFolder folder;
  const PrivateDirectory directory(folder.path());
  EXPECT_FALSE(read_image_file(directory, "image", a_key)) << "nothing";
  ASSERT_EQ(mkfifo((folder.path() + "/image").c_str(), 0600), 0);
  EXPECT_FALSE(read_image_file(directory, "image", a_key)) << "a pipe nobody writes to";
  EXPECT_FALSE(read_image_file(directory, ".", a_key)) << "a directory";
}

TEST(ImageFile, AnAbsurdlyLargeFileIsNotReadIntoMemory) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/image";
  write_bytes(path, pack_image(a_key, some_payload()));
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0) << "a sparse file of a terabyte";
  EXPECT_FALSE(read_image_file(PrivateDirectory(folder.path()), "image", a_key));
}

TEST(ImageFile, UnfinishedFilesOfThisNameAreRemoved) {
  const ScratchFolder folder;
  for (const char* name : {"mine.image.a1b2c3.tmp", "mine.image", "other.image.a1b2c3.tmp"})
    write_bytes(folder.path() + "/" + name, {'x'});
  remove_unfinished_files(PrivateDirectory(folder.path()), "mine.image");
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/mine.image.a1b2c3.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/mine.image"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/other.image.a1b2c3.tmp"));
}

}  // namespace
}  // namespace flashmoe::cuda
