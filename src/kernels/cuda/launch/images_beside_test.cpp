// The file of images beside a library: what was written is read back, anything else is refused with its reason.
#include "kernels/cuda/launch/images_beside.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "kernels/cuda/jit/jit_testing.hpp"
#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ScratchFolder;
using testing::write_bytes;

const StoreIdentity ours{"1.2.3", sha256_hex("device code")};
const std::vector<NamedFrame> frames = {{"forward_f16_d64_large", std::string(1000, 'a')}, {"merge_states", "short"}};
constexpr std::size_t index_bytes = 16 + 64 + 120 + 2 * 4 + 2 * 80;  // all before the first frame

std::string written() {
  const auto file = write_image_store(ours, 13000, {80, 89}, frames);
  EXPECT_TRUE(file);
  return *file;
}

Result<ImageStore> read(const std::string& file, const StoreIdentity& wanted = ours) {
  return read_image_store({reinterpret_cast<const unsigned char*>(file.data()), file.size()}, wanted);
}

TEST(ImageStore, ComesBack) {
  const std::string file = written();
  const auto store = read(file);
  ASSERT_TRUE(store) << store.error().to_string();
  EXPECT_EQ(store->toolkit, 13000);
  EXPECT_EQ(store->architectures, (std::vector{80, 89}));
  ASSERT_EQ(store->images.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const PackedImage& image = store->images[i];
    EXPECT_EQ(image.kernel, frames[i].kernel);
    EXPECT_EQ(std::string(image.begin, image.end), frames[i].frame);
    EXPECT_EQ((image.begin - reinterpret_cast<const unsigned char*>(file.data())) % 64, 0);
  }
}

TEST(ImageStore, NamesThatDoNotFitAreNotWritten) {
  EXPECT_FALSE(write_image_store(ours, 13000, {}, {{std::string(64, 'k'), "frame"}}));
  EXPECT_FALSE(write_image_store({std::string(33, '1'), ours.sources}, 13000, {}, frames));
}

TEST(ImageStore, EveryLengthButTheRightOneIsRefused) {
  std::string file = written();
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) EXPECT_FALSE(read(file.substr(0, bytes))) << bytes;
  EXPECT_FALSE(read(file + '\0'));
}

TEST(ImageStore, EveryFlippedBitBeforeTheFramesIsSeen) {
  std::string file = written();
  for (std::size_t at = 0; at < index_bytes; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      file[at] = static_cast<char>(file[at] ^ (1 << bit));
      EXPECT_FALSE(read(file)) << at << " bit " << bit;
      file[at] = static_cast<char>(file[at] ^ (1 << bit));
    }
  }
  EXPECT_TRUE(read(file));
}

TEST(ImageStore, AnotherLibrarysIsRefused) {
  const auto older = read(written(), {"1.2.4", ours.sources});
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().message, "is of version 1.2.3, the library of 1.2.4");
  EXPECT_EQ(older.error().fix, "pip install flashmoe-science-cuda==1.2.4");
  const auto edited = read(written(), {"1.2.3", sha256_hex("device code, edited")});
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().message, "has kernels of other sources than the library");
}

class ImagesBesideLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    write_bytes(library_, {});
    put(written());
    for (const std::string& path : {library_, images_}) chmod(path.c_str(), 0644);
  }
  void put(const std::string& content) const { write_bytes(images_, {content.begin(), content.end()}); }
  [[nodiscard]] ImagesBeside found() const { return find_images_beside(library_, ours); }
  void expect_refused(const std::string& part) const {
    const ImagesBeside answer = found();
    ASSERT_TRUE(answer.none);
    EXPECT_TRUE(answer.none->is_refused);
    EXPECT_TRUE(answer.store.images.empty());
    EXPECT_NE(answer.none->why.message.find(images_ + " " + part), std::string::npos) << answer.none->why.to_string();
  }

  ScratchFolder folder_{};
  std::string library_ = folder_.path() + "/libflashmoe.so.0", images_ = folder_.path() + "/flashmoe_cuda.images";
};

TEST_F(ImagesBesideLibrary, AreFound) {
  const ImagesBeside answer = found();
  ASSERT_FALSE(answer.none) << answer.none->why.to_string();
  EXPECT_EQ(answer.store.images.size(), frames.size());
}

TEST_F(ImagesBesideLibrary, AreFoundBehindALink) {  // as installers that link into a cache leave them
  fs::rename(images_, folder_.path() + "/elsewhere");
  fs::create_symlink(folder_.path() + "/elsewhere", images_);
  EXPECT_FALSE(found().none);
}

TEST_F(ImagesBesideLibrary, WithoutThemTheSentenceNamesBothWaysOut) {
  fs::remove(images_);
  const ImagesBeside answer = found();
  ASSERT_TRUE(answer.none);
  EXPECT_FALSE(answer.none->is_refused) << "kernels may be compiled instead";
  EXPECT_EQ(answer.none->why.message, "no CUDA images here: there is no " + images_);
  EXPECT_TRUE(answer.none->why.fix.starts_with("pip install flashmoe-science-cuda, or NVRTC"));
}

TEST_F(ImagesBesideLibrary, NothingIsLookedForBesideARelativePath) {
  const ImagesBeside answer = find_images_beside("libflashmoe.so.0", ours);
  ASSERT_TRUE(answer.none);
  EXPECT_NE(answer.none->why.message.find("does not tell its folder"), std::string::npos);
}

TEST_F(ImagesBesideLibrary, AnythingElseInTheirPlaceIsRefused) {
  put("");
  expect_refused("is no file of CUDA images");
  put("\x7f"
      "ELF and so on");
  expect_refused("is no file of CUDA images");
  put(written().substr(0, 900));
  expect_refused("has 900 bytes where ");
  fs::remove(images_);
  fs::create_directory(images_);
  expect_refused("is no regular file");
  fs::remove(images_);
  ASSERT_EQ(mkfifo(images_.c_str(), 0644), 0);
  expect_refused("is no regular file");
}

TEST_F(ImagesBesideLibrary, WhatMoreMayWriteThanTheLibraryIsRefused) {
  chmod(images_.c_str(), 0664);
  expect_refused("may be written by others than its owner");
  chmod(library_.c_str(), 0664);
  EXPECT_FALSE(found().none) << "the same group may write the library";
  chmod(images_.c_str(), 0646);
  expect_refused("may be written by others than its owner");
}

TEST_F(ImagesBesideLibrary, FoldersThatOthersMayAddToAreRefused) {
  for (const mode_t mode : {0777, 01777, 01775}) {
    chmod(folder_.path().c_str(), mode);
    expect_refused("lies in a folder that others may write to");
  }
  chmod(folder_.path().c_str(), 0775);
  EXPECT_FALSE(found().none) << "its group may replace the library, too";
  chmod(folder_.path().c_str(), 0700);
}

TEST_F(ImagesBesideLibrary, AThirdUsersFileIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(::chown(images_.c_str(), 4711, static_cast<gid_t>(-1)), 0);
  expect_refused("belongs to user 4711, and the library to user 0");
  ASSERT_EQ(::chown(library_.c_str(), 4711, static_cast<gid_t>(-1)), 0);
  EXPECT_FALSE(found().none) << "one user installed both";
}

}  // namespace
}  // namespace flashmoe::cuda
