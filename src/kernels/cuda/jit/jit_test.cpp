// From request to image with the real compiler and the real device code; compilations are counted by an NVRTC between.
#include "kernels/cuda/jit/jit.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cuda/jit/jit_testing.hpp"
#include "kernels/cuda/jit/nvrtc.hpp"
#include "kernels/cuda/jit/sources.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::cuda {
namespace {

std::string counting_nvrtc() {
  return in_build("src/kernels/cuda/jit/libcounting_nvrtc.so");
}

namespace fs = std::filesystem;
using testing::ended_well;
using testing::file_bytes;
using testing::race;
using testing::ScratchFolder;
using testing::SharedCount;
using testing::start_process;
using testing::write_bytes;

constexpr JitRequest head_size_48 = {"forward_f16_d48_small", "Half", 48, "small", false, false, 89};

// Where the NVRTC lives that would be used; asked in a process of its own, because races are to load it themselves.
std::string nvrtc_path() {
  const ScratchFolder folder;
  const std::string answer = folder.path() + "/path";
  const pid_t child = start_process([&] {
    if (!Nvrtc::open()) return false;
    const std::string found = [] {
      std::string path;
      dl_iterate_phdr(
          [](dl_phdr_info* info, std::size_t, void* to) {
            if (std::strstr(info->dlpi_name, "libnvrtc.so") != nullptr)
              *static_cast<std::string*>(to) = info->dlpi_name;
            return 0;
          },
          &path);
      return path;
    }();
    write_bytes(answer, {found.begin(), found.end()});
    return true;
  });
  if (!ended_well(child)) return {};
  const std::vector<char> bytes = file_bytes(answer);
  return {bytes.begin(), bytes.end()};
}

class Jit : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string real = nvrtc_path();
    ASSERT_FALSE(real.empty()) << "no NVRTC: it is part of the CUDA toolkit that development needs";
    setenv("FLASHMOE_TEST_NVRTC", real.c_str(), 1);
    setenv("FLASHMOE_TEST_COUNT", count_.path().c_str(), 1);
    setenv("FLASHMOE_NVRTC", counting_nvrtc().c_str(), 1);
    setenv("FLASHMOE_CACHE_DIR", cache().c_str(), 1);
  }
  void TearDown() override { unsetenv("FLASHMOE_NVRTC"); }

  [[nodiscard]] std::string cache() const { return folder_.path() + "/cache"; }
  [[nodiscard]] fs::path only_file() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(cache()), {}), 1);
    return fs::directory_iterator(cache())->path();
  }

  ScratchFolder folder_{};
  SharedCount count_{folder_.path() + "/count"};
};

bool is_cubin_with(const std::vector<char>& image, const char* kernel) {
  return image.size() > 64 &&
         std::memcmp(image.data(),
                     "\x7f"
                     "ELF",
                     4) == 0 &&
         std::string(image.begin(), image.end()).find(std::string(".text.") + kernel) != std::string::npos;
}

TEST_F(Jit, EightRacingProcessesGetTheSameImageFromOneCompilation) {
  const std::string images = folder_.path() + "/image.";
  EXPECT_EQ(race(8,
                 [&] {
                   const auto image = jit_image(head_size_48);
                   if (!image) {
                     fprintf(stderr, "%s\n", image.error().to_string().c_str());
                     return false;
                   }
                   write_bytes(images + std::to_string(getpid()), *image);
                   return is_cubin_with(*image, head_size_48.name);
                 }),
            8);
  EXPECT_EQ(count_.value(), 1U);
  std::vector<std::vector<char>> all;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    if (entry.path().string().starts_with(images)) all.push_back(file_bytes(entry.path()));
  ASSERT_EQ(all.size(), 8U);
  for (const auto& image : all) EXPECT_EQ(image, all.front());
}

TEST_F(Jit, ATruncatedFileIsCompiledAnew) {
  const auto first = jit_image(head_size_48);
  ASSERT_TRUE(first) << first.error().to_string();
  const fs::path kept = only_file();
  fs::resize_file(kept, fs::file_size(kept) / 2);
  const auto second = jit_image(head_size_48), third = jit_image(head_size_48);
  ASSERT_TRUE(second && third);
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(*third, *first);
  EXPECT_EQ(count_.value(), 2U);
}

TEST_F(Jit, WithoutACacheItCompilesEachTime) {
  setenv("FLASHMOE_CACHE_DIR", "/proc/no/such/place", 1);
  ASSERT_TRUE(jit_image(head_size_48) && jit_image(head_size_48));
  EXPECT_EQ(count_.value(), 2U);
}

TEST_F(Jit, EveryPartOfARequestMakesAnotherImage) {
  std::vector<JitRequest> requests(6, head_size_48);
  requests[1].element = "BFloat16";
  requests[2].dim = 112;
  requests[3].tile_class = "decode";
  requests[4].is_paged = true;
  requests[5].is_modified = true;
  for (const JitRequest& request : requests) {
    const auto image = jit_image(request);
    ASSERT_TRUE(image) << image.error().to_string();
    EXPECT_TRUE(is_cubin_with(*image, request.name));
  }
  EXPECT_EQ(count_.value(), requests.size());
  EXPECT_EQ(std::distance(fs::directory_iterator(cache()), {}), 6);
}

TEST_F(Jit, PtxForDriversThatCompileAndForGpusThatTheCompilerDoesNotKnow) {
  JitRequest request = head_size_48;
  request.architecture = 0;
  const auto asked = jit_image(request);
  ASSERT_TRUE(asked) << asked.error().to_string();
  EXPECT_EQ(asked->back(), '\0');
  const std::string text = asked->data();
  EXPECT_NE(text.find(".target sm_80"), std::string::npos);
  EXPECT_NE(text.find(std::string(".entry ") + request.name), std::string::npos);
  request.architecture = 999;
  const auto unknown = jit_image(request);
  ASSERT_TRUE(unknown) << unknown.error().to_string();
  EXPECT_EQ(*unknown, *asked);
  EXPECT_EQ(count_.value(), 1U) << "it is the same image, from the cache";
}

TEST_F(Jit, AnOlderDriverGetsPtxThatItCanCompile) {
  JitRequest request = head_size_48;
  request.driver = 12040;
  const auto image = jit_image(request);
  ASSERT_TRUE(image) << image.error().to_string();
  const std::string text = image->data();
  EXPECT_EQ(image->size(), text.size() + 1);
  EXPECT_NE(text.find("\n.version 8.0\n"), std::string::npos) << text.substr(0, 400);
}

TEST_F(Jit, OfSeveralCompilersTheOneThatFitsTheDriver) {
  setenv("FLASHMOE_NVRTC", (counting_nvrtc() + ":" + in_build("src/kernels/cuda/jit/libcounting_nvrtc_12.so")).c_str(),
         1);
  const auto newer = Nvrtc::open(13000), older = Nvrtc::open(12040);
  ASSERT_TRUE(newer && older);
  EXPECT_TRUE(newer->version().starts_with("13.")) << newer->version();
  EXPECT_TRUE(older->version().starts_with("12.")) << older->version();
  JitRequest request = head_size_48;
  request.driver = 12040;
  const auto image = jit_image(request);
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_TRUE(is_cubin_with(*image, request.name)) << "it loads what the older compiler makes";
}

TEST_F(Jit, ACompilersErrorNamesTheSource) {
  JitRequest request = head_size_48;
  request.tile_class = "enormous";
  const auto image = jit_image(request);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().file, "kernels/cuda/instance.cu") << image.error().to_string();
  EXPECT_NE(image.error().message.find("enormous"), std::string::npos) << image.error().to_string();
  EXPECT_TRUE(fs::is_empty(cache()));
}

TEST(DeviceSources, AreWholeAndIncludeNothingElse) {
  bool has_main = false;
  for (const Source& source : device_sources()) {
    has_main = has_main || std::strcmp(source.name, main_source_name) == 0;
    const std::vector<char> file = file_bytes(in_sources(std::string("src/") + source.name));
    EXPECT_EQ(source.text, std::string(file.begin(), file.end())) << source.name;
    const std::string text = source.text;
    for (std::size_t at = text.find("#include "); at != std::string::npos; at = text.find("#include ", at + 1)) {
      const std::size_t open = text.find_first_of("\"<", at), close = text.find_first_of("\">", open + 1);
      const std::string wanted = text.substr(open + 1, close - open - 1);
      bool is_there = false;
      for (const Source& other : device_sources()) is_there = is_there || wanted == other.name;
      EXPECT_TRUE(is_there) << source.name << " includes " << wanted << ", which NVRTC will not find";
    }
  }
  EXPECT_TRUE(has_main);
}

}  // namespace
}  // namespace flashmoe::cuda
