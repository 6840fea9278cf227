// Images made by the toolkit's nvcc in every way of packing; fails without the toolkit.
#include "images/image.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "images/cubin.hpp"
#include "images/elf.hpp"
#include "images/fatbin.hpp"

namespace flashmoe {
namespace {

class Toolkit : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) / ("images-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ / "k.cu") << "__device__ int hits[4];\n"
                                          "extern \"C\" __global__ void first(float* a) { a[threadIdx.x] += 1; }\n"
                                          "extern \"C\" __global__ void second(int n) { atomicAdd(hits, n); }\n";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::vector<std::byte> compiled(const std::string& options) {
    const std::string out = (directory_ / "out").string();
    const std::string command =
        "cd " + directory_.string() + " && nvcc " + options + " -o " + out + " k.cu 2>" + out + ".log";
    EXPECT_EQ(std::system(command.c_str()), 0) << command << "\nneeds nvcc of a CUDA 13 toolkit on PATH";
    const auto bytes = read_bytes(out);
    return bytes ? *bytes : std::vector<std::byte>{};
  }
  std::filesystem::path directory_;
};

// PTX for sm_90a runs on 9.0 alone: a newer device takes the older text beside it.
TEST_F(Toolkit, ArchitectureSpecificPtxIsForItsOwnDevicesOnly) {
  const auto fatbin = compiled(
      "-fatbin -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90a,code=compute_90a "
      "-gencode arch=compute_100f,code=compute_100f");
  for (const auto& [sm, target] : {std::pair{89, ".target sm_80"},
                                   {90, ".target sm_90a"},
                                   {100, ".target sm_100f"},
                                   {103, ".target sm_100f"},
                                   {120, ".target sm_80"}}) {
    const auto image = read_image(fatbin, sm);
    ASSERT_TRUE(image) << image.error().to_string();
    EXPECT_NE(image->ptx[0].find(target), std::string::npos) << sm << ": " << image->ptx[0].substr(0, 400);
  }
  const auto hopper = compiled("-fatbin -gencode arch=compute_90a,code=compute_90a");
  EXPECT_FALSE(read_image(hopper, 100));
}

TEST_F(Toolkit, EveryCompressionReadsTheSame) {
  std::string plain;
  for (const char* mode : {"none", "speed", "size", "balance"}) {
    const auto fatbin = compiled(std::string("-fatbin -gencode arch=compute_80,code=compute_80 -gencode "
                                             "arch=compute_89,code=[sm_89,compute_89] -Xfatbin=--compress-all "
                                             "-Xfatbin=--compress-mode=") +
                                 mode);
    const auto entries = read_fatbin(fatbin);
    ASSERT_TRUE(entries) << entries.error().to_string();
    ASSERT_EQ(entries->size(), 3U);
    const auto image = read_image_at(fatbin.data(), 89);
    ASSERT_TRUE(image) << image.error().to_string();
    ASSERT_EQ(image->ptx.size(), 1U);
    EXPECT_NE(image->ptx[0].find(".target sm_89"), std::string::npos) << mode;
    EXPECT_NE(image->ptx[0].find(".entry second"), std::string::npos) << mode;
    const auto cubin = read_cubin(image->cubin);
    ASSERT_TRUE(cubin) << cubin.error().to_string();
    EXPECT_EQ(cubin->sm, 89);
    if (plain.empty()) plain = image->ptx[0];
    EXPECT_EQ(image->ptx[0], plain) << mode;
    // An older device gets the older PTX and no cubin; the wrapper of a fatbin is the fatbin.
    const auto ampere = read_image(fatbin, 80);
    ASSERT_TRUE(ampere);
    EXPECT_NE(ampere->ptx[0].find(".target sm_80"), std::string::npos);
    EXPECT_TRUE(ampere->cubin.empty());
    const struct {
      std::uint32_t magic, version;
      const void* data;
      void* name;
    } wrapper{fatbin_wrapper_magic, 1, fatbin.data(), nullptr};
    const auto wrapped = read_image_at(&wrapper, 89);
    ASSERT_TRUE(wrapped);
    EXPECT_EQ(wrapped->ptx, image->ptx);
  }
}

TEST_F(Toolkit, ACubinNeedsLineInfo) {
  const auto with = compiled("-cubin -arch=sm_89 -lineinfo");
  const auto image = read_image_at(with.data(), 89);
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_NE(image->ptx[0].find(".visible .entry first("), std::string::npos);
  EXPECT_EQ(image->cubin, with);
  const auto without = compiled("-cubin -arch=sm_89");
  const auto refused = read_image_at(without.data(), 89);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().fix.find("-lineinfo"), std::string::npos);
}

TEST_F(Toolkit, DamageIsRefused) {
  const auto fatbin = compiled("-fatbin -arch=sm_89 -Xfatbin=--compress-all");
  for (std::size_t i = 0; i < fatbin.size(); i += 3) {
    auto damaged = fatbin;
    damaged[i] ^= std::byte{0xff};
    static_cast<void>(read_fatbin(damaged));  // refused or read, never out of bounds (asan watches)
    EXPECT_FALSE(read_fatbin(std::span(fatbin).first(i)));
  }
}

TEST(Container, HoldsEveryText) {
  const std::vector<std::string> texts{".version 9.0\n", "", ".version 8.5\n.target sm_80\n"};
  const auto bytes = link_container(texts);
  const auto image = read_image_at(bytes.data(), 89);
  ASSERT_TRUE(image);
  EXPECT_EQ(image->ptx, texts);
  for (std::size_t i = 8; i < bytes.size(); ++i) EXPECT_FALSE(read_image(std::span(bytes).first(i), 89)) << i;
}

// On the heap and of just that size, so that asan sees a byte too far.
template <class... Part>
std::vector<std::byte> file_of(const Part&... part) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& one) {
    const auto* begin = reinterpret_cast<const std::byte*>(&one);
    bytes.insert(bytes.end(), begin, begin + sizeof(one));
  };
  (append(part), ...);
  return bytes;
}

TEST(Files, HoldNoPointersThatAreFollowed) {
  const char text[] = ".version 9.0\n.target sm_80\n";
  for (const std::uint64_t pointer : {reinterpret_cast<std::uint64_t>(text), std::uint64_t{8}, std::uint64_t{0}}) {
    const auto file = file_of(fatbin_wrapper_magic, std::uint32_t{1}, pointer, std::uint64_t{0});
    const auto refused = read_image(file, 89);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("pointer"), std::string::npos) << refused.error().to_string();
    for (std::size_t i = 4; i < file.size(); ++i) EXPECT_FALSE(read_image(std::span(file).first(i), 89)) << i;
  }
  // In memory it is followed once: no wrapper holds another.
  struct {
    std::uint32_t magic = fatbin_wrapper_magic, version = 1;
    const void* data = nullptr;
    void* name = nullptr;
  } wrapper;
  EXPECT_FALSE(read_image_at(&wrapper, 89));
  wrapper.data = &wrapper;
  EXPECT_FALSE(read_image_at(&wrapper, 89));
}

TEST(Files, LengthsThatWrapAroundAreRefused) {
  const auto fatbin = file_of(fatbin_magic, std::uint16_t{1}, std::uint16_t{16}, ~std::uint64_t{7});
  EXPECT_FALSE(read_image(fatbin, 89));
  EXPECT_FALSE(read_image_at(fatbin.data(), 89));
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{23}, std::uint64_t{24}}) {
    const auto container = file_of(std::array{'V', 'G', 'P', 'U', 'L', 'I', 'N', 'K'}, total, std::uint64_t{1} << 40U);
    EXPECT_FALSE(read_image(container, 89)) << total;
    EXPECT_FALSE(read_image_at(container.data(), 89)) << total;
  }
}

// A small file must not ask for the memory of a large one.
TEST(Files, WhatCannotDecompressToItsSizeIsNotTried) {
  struct {
    std::uint16_t kind = 1, version = 1;
    std::uint32_t header_bytes = 64;
    std::uint64_t padded_bytes = 16;
    std::uint32_t compressed_bytes = 16, unused[2] = {}, sm = 80, bits = 64, unused_2 = 0;
    std::uint64_t flags = 0x2000, unused_3 = 0, plain_bytes = std::uint64_t{1} << 30U;
  } entry;
  for (const std::uint64_t flags : {0x2000, 0x8000}) {
    entry.flags = flags;
    const auto refused = read_image(file_of(fatbin_magic, std::uint16_t{1}, std::uint16_t{16}, std::uint64_t{80}, entry,
                                            std::array<std::byte, 16>{}),
                                    89);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("cannot hold"), std::string::npos) << refused.error().to_string();
  }
}

TEST(Files, ADirectoryIsNoFile) {
  EXPECT_FALSE(read_bytes(::testing::TempDir()));
}

}  // namespace
}  // namespace flashmoe
