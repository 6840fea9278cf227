// The cache among processes: racing, killed, hanging; damaged files; directories that cannot be used. Images are made
// by a stand-in for the compiler that counts itself.
#include "kernels/cuda/jit/image_cache.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <random>
#include <thread>

#include "kernels/cuda/jit/image_file.hpp"
#include "kernels/cuda/jit/jit_testing.hpp"
#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ended_well;
using testing::file_bytes;
using testing::race;
using testing::ScratchFolder;
using testing::SharedCount;
using testing::start_process;
using testing::write_bytes;

// What the compiler would make for a key.
std::vector<char> image_of(const std::string& key) {
  std::vector<char> image;
  for (int i = 0; i < 500; ++i) image.insert(image.end(), key.begin(), key.end());
  return image;
}

class Cache : public ::testing::Test {
 protected:
  [[nodiscard]] std::string directory() const { return folder_.path() + "/a/b"; }
  [[nodiscard]] std::string path() const { return directory() + "/" + key_ + ".image"; }

  // Whether the caller gets the right image.
  [[nodiscard]] bool get(const std::string& directory, std::chrono::milliseconds compile_time = 0ms,
                         std::chrono::milliseconds patience = 60s) const {
    const auto got = ImageCache(directory, patience).get(key_, [&]() -> Result<std::vector<char>> {
      count_.add();
      std::this_thread::sleep_for(compile_time);
      return image_of(key_);
    });
    return got && *got == image_of(key_);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory())) names.push_back(entry.path().filename().string());
    return names;
  }

  ScratchFolder folder_{};
  SharedCount count_{folder_.path() + "/count"};
  std::string key_ = sha256_hex("a kernel");
};

TEST_F(Cache, KeepsAnImage) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(get(directory()));
  EXPECT_EQ(count_.value(), 1U);
  EXPECT_EQ(names(), std::vector<std::string>{key_ + ".image"}) << "no lock and no temporary file stays";
}

TEST_F(Cache, PassesTheCompilersErrorOnAndKeepsNothing) {
  const ImageCache cache(directory());
  const auto got =
      cache.get(key_, [] { return Result<std::vector<char>>(Diagnostic{.message = "no such head size"}); });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "no such head size");
  EXPECT_TRUE(names().empty());
}

TEST_F(Cache, EightRacingProcessesCompileOnce) {
  for (int round = 0; round < 10; ++round) {
    key_ = sha256_hex("round " + std::to_string(round));
    EXPECT_EQ(race(8, [&] { return get(directory(), 20ms); }), 8);
    EXPECT_EQ(count_.value(), static_cast<std::size_t>(round) + 1) << "one compiles, the others wait";
  }
  EXPECT_EQ(names().size(), 10U);
}

TEST_F(Cache, EightProcessesAroundATruncatedFileCompileOnce) {
  ASSERT_TRUE(get(directory()));
  fs::resize_file(path(), fs::file_size(path()) / 2);
  EXPECT_EQ(race(8, [&] { return get(directory(), 20ms); }), 8);
  EXPECT_EQ(count_.value(), 2U);
}

TEST_F(Cache, EightThreadsCompileOnce) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { good += get(directory(), 20ms) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(count_.value(), 1U);
}

TEST_F(Cache, AHolderThatDiedBlocksNobody) {
  const pid_t child = start_process([&] { return get(directory(), 1h); });
  while (count_.value() == 0) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(fs::exists(directory() + "/" + key_ + ".lock"));
  kill(child, SIGKILL);
  EXPECT_FALSE(ended_well(child));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(get(directory()));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  EXPECT_EQ(names(), std::vector<std::string>{key_ + ".image"}) << "its lock file is gone";
}

TEST_F(Cache, AHolderThatHangsIsWaitedForOnlySoLong) {
  const pid_t child = start_process([&] { return get(directory(), 1h); });
  while (count_.value() == 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(get(directory(), 0ms, 50ms));
  EXPECT_EQ(count_.value(), 2U);
  EXPECT_TRUE(get(directory(), 0ms, 50ms)) << "what was made without the lock is kept too";
  EXPECT_EQ(count_.value(), 2U);
  kill(child, SIGKILL);
  EXPECT_FALSE(ended_well(child));
}

// Processes die at any moment of a get; nobody ever sees a wrong image, and the next one cleans up.
TEST_F(Cache, SurvivesKills) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    if (round % 10 == 0) fs::remove(path());
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) children.push_back(start_process([&] { return get(directory(), 2ms); }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 6000));
    kill(children[0], SIGKILL);
    (void)ended_well(children[0]);
    EXPECT_TRUE(ended_well(children[1]));
    EXPECT_TRUE(ended_well(children[2]));
  }
  fs::remove(path());
  EXPECT_TRUE(get(directory()));
  EXPECT_EQ(names(), std::vector<std::string>{key_ + ".image"});
}

TEST_F(Cache, DamagedFilesAreReplaced) {
  ASSERT_TRUE(get(directory()));
  const std::vector<char> good = file_bytes(path());
  std::vector<std::vector<char>> damaged;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{12}, std::size_t{16}, std::size_t{24},
        image_header_bytes - 1, image_header_bytes, image_header_bytes + 1, good.size() / 2, good.size() - 1})
    damaged.emplace_back(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes));
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{12}, std::size_t{16}, std::size_t{24},
                               std::size_t{88}, image_header_bytes, good.size() - 1}) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x40);
  }
  damaged.push_back(good);
  damaged.back().push_back('x');
  damaged.push_back(pack_image(sha256_hex("another kernel"), image_of(key_)));
  const std::string elf =
      "\x7f"
      "ELF, an image without a header";
  damaged.emplace_back(elf.begin(), elf.end());
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    write_bytes(path(), damaged[i]);
    const std::size_t before = count_.value();
    EXPECT_TRUE(get(directory())) << i;
    EXPECT_TRUE(get(directory())) << i;
    EXPECT_EQ(count_.value(), before + 1) << i;
    EXPECT_EQ(file_bytes(path()), good) << i;
  }
}

TEST_F(Cache, WhatIsNoFileInTheImagesPlaceIsReplacedOrLeft) {
  ASSERT_TRUE(get(directory()));
  fs::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_TRUE(get(directory()) && get(directory()));
  EXPECT_EQ(count_.value(), 2U) << "a pipe is replaced";
  fs::remove(path());
  fs::create_symlink("nowhere", path());
  EXPECT_TRUE(get(directory()) && get(directory()));
  EXPECT_EQ(count_.value(), 3U) << "a link that leads nowhere is replaced";
  fs::remove(path());
  fs::create_directories(path() + "/with a file");
  EXPECT_TRUE(get(directory()) && get(directory()));
  EXPECT_EQ(count_.value(), 5U) << "a directory stays, and the image is made each time";
}

TEST_F(Cache, ALockThatCannotBeHadIsDoneWithout) {
  fs::create_directories(directory() + "/" + key_ + ".lock");
  EXPECT_EQ(race(4, [&] { return get(directory(), 5ms); }), 4);
  const std::size_t before = count_.value();
  EXPECT_TRUE(get(directory()));
  EXPECT_EQ(count_.value(), before) << "it is kept all the same";
}

TEST_F(Cache, WithoutAUsableDirectoryItCompilesEachTime) {
  write_bytes(folder_.path() + "/file", {'x'});
  for (const std::string& nowhere : {std::string(), folder_.path() + "/file", folder_.path() + "/file/below",
                                     std::string("/proc/no/such/place"), folder_.path() + std::string(300, 'n')}) {
    const std::size_t before = count_.value();
    EXPECT_TRUE(get(nowhere) && get(nowhere)) << nowhere;
    EXPECT_EQ(count_.value(), before + 2) << nowhere;
  }
}

TEST_F(Cache, ADirectoryThatMayOnlyBeReadServesWhatItHas) {
  constexpr uid_t nobody = 65534;
  ASSERT_TRUE(get(directory()));
  const std::string kept = key_;
  for (const std::string& place : {folder_.path(), folder_.path() + "/a", directory()})
    fs::permissions(place, fs::perms(0555));
  fs::permissions(path(), fs::perms(0444));
  write_bytes(count_.path(), {});
  fs::permissions(count_.path(), fs::perms(0666));
  // Permissions do not bind root.
  const pid_t child = start_process([&] {
    if (geteuid() == 0 && setuid(nobody) != 0) return false;
    bool is_right = get(directory()) && count_.value() == 0;
    key_ = sha256_hex("another kernel");
    is_right = is_right && get(directory()) && get(directory()) && count_.value() == 2;
    return is_right && names() == std::vector<std::string>{kept + ".image"};
  });
  EXPECT_TRUE(ended_well(child));
  for (const std::string& place : {folder_.path(), folder_.path() + "/a", directory()})
    fs::permissions(place, fs::perms(0700));
}

TEST(CacheDirectory, ComesFromTheEnvironment) {
  const pid_t child = start_process([] {
    setenv("FLASHMOE_CACHE_DIR", "/forced", 1);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home/me", 1);
    if (default_cache_directory() != "/forced") return false;
    setenv("FLASHMOE_CACHE_DIR", "", 1);
    if (default_cache_directory() != "/xdg/flashmoe-science/kernels") return false;
    setenv("XDG_CACHE_HOME", "relative", 1);
    if (default_cache_directory() != "/home/me/.cache/flashmoe-science/kernels") return false;
    unsetenv("HOME");
    return default_cache_directory().empty();
  });
  EXPECT_TRUE(ended_well(child));
}

TEST_F(Cache, DirectoriesItMakesAreForTheOwnerAlone) {
  ASSERT_TRUE(get(directory()));
  EXPECT_EQ(fs::status(directory()).permissions() & fs::perms(0077), fs::perms::none);
}

}  // namespace
}  // namespace flashmoe::cuda
