// Whose directories and files are used. Where the test is root it plays another user's part as well.
#include "kernels/cuda/jit/private_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "kernels/cuda/jit/image_cache.hpp"
#include "kernels/cuda/jit/image_file.hpp"
#include "kernels/cuda/jit/jit_testing.hpp"
#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ended_well;
using testing::file_bytes;
using testing::ScratchFolder;
using testing::start_process;
using testing::write_bytes;

constexpr uid_t another_user = 65534;

class PrivateDirectoryTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name = "cache") const { return folder_.path() + "/" + name; }
  void give_away(const std::string& name) const {
    ASSERT_EQ(lchown(path(name).c_str(), another_user, another_user), 0) << name;
  }
  // Whether the cache at that path serves the image that lies in it, instead of having it made.
  [[nodiscard]] bool is_served_from(const std::string& directory) const {
    bool is_made = false;
    const auto got = ImageCache(directory).get(key_, [&]() -> Result<std::vector<char>> {
      is_made = true;
      return std::vector<char>{'m', 'a', 'd', 'e'};
    });
    EXPECT_TRUE(got);
    EXPECT_EQ(is_made, *got != payload_);
    return !is_made;
  }
  void put_image(const std::string& name = "cache") const {
    fs::create_directory(path(name));
    fs::permissions(path(name), fs::perms(0700));
    write_bytes(path(name) + "/" + key_ + ".image", pack_image(key_, payload_));
    fs::permissions(path(name) + "/" + key_ + ".image", fs::perms(0600));
  }

  ScratchFolder folder_{};
  std::string key_ = sha256_hex("a kernel");
  std::vector<char> payload_ = {'k', 'e', 'p', 't'};
};

TEST_F(PrivateDirectoryTest, OurOwnIsUsed) {
  put_image();
  EXPECT_TRUE(is_served_from(path()));
  EXPECT_TRUE(is_served_from(path() + "//./"));
  const PrivateDirectory made(path("a/b/c"));
  EXPECT_TRUE(made.is_open());
  EXPECT_EQ(fs::status(path("a/b/c")).permissions(), fs::perms(0700));
}

TEST_F(PrivateDirectoryTest, OneThatOthersMayWriteToIsNot) {
  for (const unsigned mode : {0777U, 0770U, 0702U, 0720U, 01777U}) {
    put_image();
    fs::permissions(path(), fs::perms(mode));
    EXPECT_FALSE(is_served_from(path())) << std::oct << mode;
    EXPECT_EQ(file_bytes(path() + "/" + key_ + ".image"), pack_image(key_, payload_)) << "and nothing is put there";
    EXPECT_NE(PrivateDirectory(path()).why_not_trusted().find("may write"), std::string::npos);
  }
}

TEST_F(PrivateDirectoryTest, AFileThatOthersMayWriteIsNotRead) {
  put_image();
  fs::permissions(path() + "/" + key_ + ".image", fs::perms(0666));
  EXPECT_FALSE(is_served_from(path()));
}

TEST_F(PrivateDirectoryTest, ALinkInAFilesPlaceIsNotFollowed) {
  put_image();
  fs::rename(path() + "/" + key_ + ".image", path("elsewhere"));
  fs::create_symlink(path("elsewhere"), path() + "/" + key_ + ".image");
  EXPECT_FALSE(is_served_from(path()));
  EXPECT_EQ(file_bytes(path("elsewhere")), pack_image(key_, payload_)) << "what it led to is left alone";
}

TEST_F(PrivateDirectoryTest, OurOwnLinkOnTheWayIsFollowed) {
  put_image("real");
  fs::create_directory_symlink(path("real"), path("link"));
  EXPECT_TRUE(is_served_from(path("link")));
  fs::create_directory_symlink(folder_.path(), path("up"));
  EXPECT_TRUE(is_served_from(path("up/real")));
}

TEST_F(PrivateDirectoryTest, AnotherUsersDirectoryIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  put_image();
  give_away("cache");
  EXPECT_FALSE(is_served_from(path()));
  EXPECT_NE(PrivateDirectory(path()).why_not_trusted().find("user 65534"), std::string::npos);
}

TEST_F(PrivateDirectoryTest, AnotherUsersFileIsNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  put_image();
  give_away("cache/" + key_ + ".image");
  EXPECT_FALSE(is_served_from(path()));
  const std::vector<char> made = {'m', 'a', 'd', 'e'};
  EXPECT_EQ(file_bytes(path() + "/" + key_ + ".image"), pack_image(key_, made)) << "one of ours takes its place";
}

TEST_F(PrivateDirectoryTest, AnotherUsersLinkIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  put_image("real");
  fs::create_directory_symlink(path("real"), path("link"));
  fs::create_directory_symlink(folder_.path(), path("up"));
  give_away("link");
  give_away("up");
  EXPECT_FALSE(is_served_from(path("link")));
  EXPECT_FALSE(is_served_from(path("up/real")));
  EXPECT_NE(PrivateDirectory(path("up/real")).why_not_trusted().find("symbolic link"), std::string::npos);
}

TEST_F(PrivateDirectoryTest, RootsIsTrustedByEverybody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can provide one";
  put_image();
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(path(), fs::perms(0755));
  fs::permissions(path() + "/" + key_ + ".image", fs::perms(0644));
  EXPECT_TRUE(ended_well(start_process([&] { return setuid(another_user) == 0 && is_served_from(path()); })));
}

// Exchanged after it was looked at, it is still the one that was looked at.
TEST_F(PrivateDirectoryTest, StaysTheOneThatWasOpened) {
  put_image();
  const PrivateDirectory opened(path());
  fs::rename(path(), path("old"));
  fs::create_directory(path());
  EXPECT_TRUE(read_image_file(opened, key_ + ".image", key_));
}

// In a process of its own, which runs a test that is refused five times.
TEST_F(PrivateDirectoryTest, TheReasonIsSaidOnceAProcess) {
  const std::string said = path("said");
  EXPECT_TRUE(ended_well(start_process([&] {
    const int file = ::open(said.c_str(), O_WRONLY | O_CREAT, 0600);
    if (file < 0 || dup2(file, STDERR_FILENO) < 0) return false;
    execl("/proc/self/exe", "again", "--gtest_filter=*.OneThatOthersMayWriteToIsNot", nullptr);
    return false;
  })));
  const std::vector<char> bytes = file_bytes(said);
  const std::string text(bytes.begin(), bytes.end());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("/cache: others than its owner may write to it"), std::string::npos) << text;
  EXPECT_NE(text.find("FLASHMOE_CACHE_DIR"), std::string::npos) << text;
}

}  // namespace
}  // namespace flashmoe::cuda
