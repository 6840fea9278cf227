// The cubin reader and the name matching on bytes and names made here; what real compilers write is cuda_build_test's.
#include "workflow/build/cubin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "workflow/build/elf.hpp"
#include "workflow/build/kernel_name.hpp"
#include "workflow/build/ptx_facts.hpp"

namespace flashmoe::workflow {
namespace {

TEST(Cubin, AnythingElseIsRefusedWithAReason) {
  EXPECT_FALSE(read_cubin({}));
  const std::vector<std::byte> zeros(4096);
  EXPECT_FALSE(read_cubin(zeros));
  const auto exe = read_bytes("/bin/true");
  ASSERT_TRUE(exe);
  const auto cubin = read_cubin(*exe);
  ASSERT_FALSE(cubin);
  EXPECT_NE(cubin.error().message.find("machine 62"), std::string::npos) << cubin.error().message;
}

TEST(Elf, ReadsSymbolsAndNeededLibraries) {
  const auto bytes = read_bytes("/bin/true");
  ASSERT_TRUE(bytes);
  const auto elf = read_elf(*bytes);
  ASSERT_TRUE(elf) << elf.error().to_string();
  const auto needed = elf->needed();
  EXPECT_NE(std::find(needed.begin(), needed.end(), "libc.so.6"), needed.end());
}

// Every prefix and many random damages of a real file: refused or read, never read out of bounds (asan watches).
TEST(Elf, DamagedFilesAreSurvived) {
  const auto whole = read_bytes("/bin/true");
  ASSERT_TRUE(whole);
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> place(0, whole->size() - 1);
  int still_readable = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = *whole;
    if (i % 2 == 0) bytes.resize(place(random));
    const std::size_t tail = bytes.size() > 4096 ? bytes.size() - 4096 : 0;
    for (int damage = 0; damage < 8 && !bytes.empty(); ++damage) {
      const std::size_t header = place(random) % std::min<std::size_t>(64, bytes.size());
      bytes[damage % 2 == 0 ? header : tail + place(random) % (bytes.size() - tail)] = static_cast<std::byte>(random());
    }
    if (bytes.size() > 20) bytes[18] = static_cast<std::byte>(190);  // so that the cubin reader goes on
    static_cast<void>(read_cubin(bytes));
    if (const auto elf = read_elf(bytes)) {
      ++still_readable;
      static_cast<void>(elf->symbols(11));
      static_cast<void>(elf->needed());
    }
  }
  EXPECT_GT(still_readable, 10);
}

TEST(KernelName, OneFormForWhatIsTheSame) {
  const auto same = [](const char* a, const char* b) { return parse_kernel_name(a) == parse_kernel_name(b); };
  EXPECT_TRUE(same("softmax_kernel<float, 256>", "void softmax_kernel<float, 256>(float const*, float*, int)"));
  EXPECT_TRUE(same("k<half,4>", "void k<__half, 4>(__half*)"));
  EXPECT_TRUE(same("k< 256u , true >", "void k<256, true>()"));
  EXPECT_TRUE(same("k<const float*>", "void k<float const*>()"));
  EXPECT_TRUE(same("k<std::uint32_t, int64_t>", "void k<unsigned int, long>()"));
  EXPECT_TRUE(same("ops::k<pair<half, 2>>", "void ops::k<pair<__half, 2> >(int)"));
  EXPECT_TRUE(same("plain", "plain(float*)"));
  EXPECT_TRUE(same("k<1>", "void (anonymous namespace)::k<1>(float*)"));
  EXPECT_FALSE(same("k<256>", "void k<128>()"));
  EXPECT_FALSE(same("k<float>", "void k<double>()"));
  EXPECT_FALSE(same("k", "void k<float>()"));
}

TEST(KernelName, ANameInAnotherNamespaceCountsOnlyWhenItIsTheOnlyOne) {
  Cubin cubin;
  cubin.kernels = {{.name = "a", .demangled = "void a::run<float>(float*)"}};
  EXPECT_NE(find_kernel(cubin, "run<float>"), nullptr);
  cubin.kernels.push_back({.name = "b", .demangled = "void b::run<float>(float*)"});
  EXPECT_EQ(find_kernel(cubin, "run<float>"), nullptr);
  EXPECT_EQ(find_kernel(cubin, "b::run<float>"), &cubin.kernels[1]);
}

TEST(KernelName, AnInstantiationLineIsMadeFromTheTemplate) {
  const std::string text =
      "int softmax(int);\n// softmax(x)\ntemplate <class T, int N = 4>\n__global__ void softmax(const T* x,\n"
      "                        Vec<T, N>* y, int Nx) {}\n";
  EXPECT_EQ(instantiation_line(text, parse_kernel_name("softmax<half, 8>")),
            "template __global__ void softmax<__half, 8>(const __half* x, Vec<__half, 8>* y, int Nx);");
  EXPECT_EQ(instantiation_line(text, parse_kernel_name("soft<half, 8>")), std::nullopt);
  EXPECT_EQ(instantiation_line("__global__ void plain(int x) {}", parse_kernel_name("plain<4>")), std::nullopt);
}

TEST(Ptx, SharedMemoryAndExternalFunctions) {
  const auto facts = read_ptx(R"(
.version 9.0  // .shared .b8 no[9999];
.extern .func (.param .b32 func_retval0) _Z6helperf ( .param .b32 p );
.extern .func vprintf ( .param .b64 a );
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b32 common[8];
.func (.param .b32 r) _Z4donev () { ret; }
.visible .entry first( .param .u64 a ) .maxntid 256, 1, 1 {
  .shared .align 4 .b8 tile[1024];
  .shared .f32 two[4][2], one;
  { ld.shared.f32 %f1, [tile]; }
}
.visible .entry second() { ret; }
)");
  ASSERT_EQ(facts.entries.size(), 2U);
  EXPECT_EQ(facts.entries[0].name, "first");
  EXPECT_EQ(facts.entries[0].static_shared_bytes, 32 + 1024 + 32 + 4);
  EXPECT_EQ(facts.entries[1].static_shared_bytes, 32);
  EXPECT_EQ(facts.external_functions, std::vector<std::string>{"_Z6helperf"});
}

}  // namespace
}  // namespace flashmoe::workflow
