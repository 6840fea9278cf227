// The library as a program sees it: loaded with dlopen, called by name.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "images/elf.hpp"
#include "images/image.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe {
namespace {

constexpr int input_ptx = 2, input_ltoir = 3, input_library = 6, input_any = 10;

class NvJitLink : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(in_build("vgpu/libnvJitLink.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <class... A>
  int call(const char* name, A... arguments) {
    void* const function = dlsym(library_, name);
    if (function == nullptr) return -1;
    return reinterpret_cast<int (*)(A...)>(function)(arguments...);
  }
  void* create() {
    void* link = nullptr;
    const char* options[] = {"-arch=sm_89", "-lineinfo"};
    EXPECT_EQ(call("__nvJitLinkCreate_13_0", &link, 2U, static_cast<const char* const*>(options)), 0);
    return link;
  }
  int add(void* link, int type, const std::string& data, const char* name = "part") {
    return call("nvJitLinkAddData", link, type, static_cast<const void*>(data.data()), data.size(), name);
  }
  void* library_ = nullptr;
};

TEST_F(NvJitLink, LinksPtxIntoWhatTheDriverLoads) {
  const std::vector<std::string> texts{".version 9.0\n.target sm_80\n", ".version 8.5\n.target sm_80\n"};
  void* link = create();
  EXPECT_EQ(add(link, input_ptx, texts[0]), 0);
  EXPECT_EQ(add(link, input_any, texts[1]), 0);
  ASSERT_EQ(call("nvJitLinkComplete", link), 0);
  std::size_t bytes = 0;
  ASSERT_EQ(call("nvJitLinkGetLinkedCubinSize", link, &bytes), 0);
  std::vector<std::byte> cubin(bytes);
  ASSERT_EQ(call("nvJitLinkGetLinkedCubin", link, static_cast<void*>(cubin.data())), 0);
  const auto image = read_image(cubin, 89);
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_EQ(image->ptx, texts);
  EXPECT_EQ(call("nvJitLinkDestroy", &link), 0);
  EXPECT_EQ(link, nullptr);
}

TEST_F(NvJitLink, SaysWhatItCannotLink) {
  void* link = create();
  EXPECT_NE(add(link, input_ltoir, "BC"), 0);
  EXPECT_NE(add(link, input_library, "!<arch>\n", "libmine.a"), 0);
  EXPECT_NE(call("nvJitLinkComplete", link), 0);
  std::size_t size = 0;
  EXPECT_NE(call("nvJitLinkGetLinkedPtxSize", link, &size), 0);
  ASSERT_EQ(call("nvJitLinkGetErrorLogSize", link, &size), 0);
  std::string log(size, 'x');
  ASSERT_EQ(call("nvJitLinkGetErrorLog", link, log.data()), 0);
  EXPECT_EQ(log.find('\0'), size - 1);
  EXPECT_NE(log.find("part: LTO code"), std::string::npos) << log;
  EXPECT_EQ(call("nvJitLinkDestroy", &link), 0);
  const char* option = "-lto";
  EXPECT_EQ(call("nvJitLinkCreate", &link, 1U, static_cast<const char* const*>(&option)), 2) << "no -arch";
  EXPECT_NE(call("nvJitLinkAddData", static_cast<void*>(nullptr), input_ptx, static_cast<const void*>(""),
                 std::size_t{0}, ""),
            0);
}

TEST_F(NvJitLink, NamesAVersionThatPromisesNoLto) {
  unsigned major = 0, minor = 0;
  ASSERT_EQ(call("nvJitLinkVersion", &major, &minor), 0);
  EXPECT_LT(std::pair(major, minor), std::pair(12U, 3U));
  EXPECT_NE(call("nvJitLinkVersion", static_cast<unsigned*>(nullptr), &minor), 0);
}

// Libraries that were linked against NVIDIA's are bound to its names and their version when they are loaded.
TEST_F(NvJitLink, ExportsEveryNameOfTheRealLibrary) {
  const auto bytes = read_bytes(REAL_NVJITLINK);
  ASSERT_TRUE(bytes) << bytes.error().to_string() << "\nneeds libnvJitLink of a CUDA 13 toolkit";
  const auto real = read_elf(*bytes);
  ASSERT_TRUE(real) << real.error().to_string();
  int names = 0;
  for (const ElfSymbol& symbol : real->symbols(SHT_DYNSYM)) {
    if (symbol.undefined() || symbol.type != STT_FUNC) continue;
    ++names;
    EXPECT_NE(dlvsym(library_, std::string(symbol.name).c_str(), "libnvJitLink.so.13"), nullptr) << symbol.name;
  }
  EXPECT_GE(names, 28);
  EXPECT_EQ(dlopen("libnvJitLink.so.13", RTLD_NOW | RTLD_NOLOAD), library_) << "another name";
}

}  // namespace
}  // namespace flashmoe
