// Names as written against names as compiled; what real compilers write is cuda_build_test's.
#include "workflow/compile/kernel_name.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "workflow/compile/ptx_facts.hpp"

namespace flashmoe::workflow {
namespace {

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
