// What the real nvcc writes for ordinary C++: parsed, printed, and the printed text assembled by the real ptxas. A
// machine without a toolkit fails here: nothing would have been shown.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "support/toolkit.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::ptx {
namespace {

namespace fs = std::filesystem;

struct Compiled {
  std::string text;
  Module module;
};

class Nvcc : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "vgpu-ptx-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void run(const std::string& program, const std::string& arguments) {
    const std::string path = testing::toolkit_program(program);
    ASSERT_FALSE(path.empty()) << "no CUDA toolkit on PATH, in CUDA_HOME or in /usr/local/cuda";
    const std::string command = "cd '" + folder_.string() + "' && '" + path + "' " + arguments + " >log 2>&1";
    const int status = std::system(command.c_str());
    ASSERT_EQ(status, 0) << command << "\n" << contents("log");
  }

  [[nodiscard]] std::string contents(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  // Compiles, parses, prints, parses again, assembles what was printed.
  Compiled compile(const std::string& source, const std::string& flags = "", const std::string& arch = "sm_89") {
    Compiled compiled;
    std::ofstream(folder_ / "k.cu") << source;
    run("nvcc", "-arch=" + arch + " -std=c++17 --ptx k.cu -o k.ptx " + flags);
    if (HasFatalFailure()) return compiled;
    compiled.text = contents("k.ptx");
    auto module = parse(compiled.text, "k.ptx");
    if (!module) {
      ADD_FAILURE() << module.error().to_string();
      return compiled;
    }
    const std::string printed = print(*module);
    const auto again = parse(printed, "printed.ptx");
    if (!again) {
      ADD_FAILURE() << again.error().to_string();
      return compiled;
    }
    EXPECT_EQ(print(*again), printed);
    std::ofstream(folder_ / "printed.ptx") << printed;
    run("ptxas", "-c -arch=" + arch + " printed.ptx -o printed.cubin");
    compiled.module = std::move(*module);
    return compiled;
  }

  fs::path folder_{};
};

void each_instruction(const Block& block, const std::function<void(const Instruction&)>& visit) {
  for (const Statement& statement : block.statements) {
    if (const auto* instruction = std::get_if<Instruction>(&statement.what)) visit(*instruction);
    if (const auto* inner = std::get_if<Block>(&statement.what)) each_instruction(*inner, visit);
  }
}

std::set<std::string> opcodes(const Module& module) {
  std::set<std::string> names;
  for (const Function& function : module.functions)
    each_instruction(function.body, [&](const Instruction& instruction) { names.insert(instruction.opcode); });
  return names;
}

const Function* find(const Module& module, const std::string& part) {
  for (const Function& function : module.functions)
    if (!function.is_declaration && function.name.find(part) != std::string::npos) return &function;
  return nullptr;
}

TEST_F(Nvcc, TemplatesSharedMemoryAndLaunchBounds) {
  const Compiled compiled = compile(R"(
template <class T, int N> __global__ void __launch_bounds__(N, 2) reduce(const T* in, T* out, int n) {
  extern __shared__ unsigned char raw[];
  __shared__ T part[N];
  T* dynamic = reinterpret_cast<T*>(raw);
  part[threadIdx.x] = threadIdx.x < n ? in[blockIdx.x * N + threadIdx.x] : T(0);
  dynamic[threadIdx.x] = part[threadIdx.x ^ 1];
  __syncthreads();
  for (int step = N / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step] + dynamic[step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
template __global__ void reduce<float, 128>(const float*, float*, int);
template __global__ void reduce<double, 256>(const double*, double*, int);
)");
  ASSERT_EQ(compiled.module.functions.size(), 2U);
  const Function& first = compiled.module.functions[0];
  EXPECT_TRUE(first.is_entry);
  EXPECT_EQ(first.parameters.size(), 3U);
  EXPECT_EQ(first.directives.at(0).first, "maxntid");
  EXPECT_TRUE(opcodes(compiled.module).contains("bar"));
}

TEST_F(Nvcc, CallsPrintfPointersAndTables) {
  const Compiled compiled = compile(R"(
#include <cstdio>
struct __attribute__((packed)) Odd { char c; int* p; };
__device__ int cell;
__device__ Odd odd = {1, &cell};
__device__ int table[2][3] = {{1, 2}, {3}};
__device__ int* pointers[2] = {&cell, &table[1][2]};
__constant__ float factors[3] = {1.f, 2.5f};
__managed__ int managed;
__noinline__ __device__ float square(float a, int* p) { atomicAdd(p, 1); return a * a; }
__noinline__ __device__ float cube(float a, int* p) { atomicAdd(p, 2); return a * a * a; }
typedef float (*Function)(float, int*);
__device__ Function functions[2] = {square, cube};
__global__ void k(float* out, int n, Odd odd_parameter, const __grid_constant__ int4 q) {
  out[0] = functions[n & 1](out[1] * factors[n], odd_parameter.p) + square(out[2], &cell) + q.x;
  printf("%d %s %f\n", n, "h\xc3\xa9\n", out[3]);
  *odd.p = 2;
  *pointers[n] = table[n][n];
  managed = 1;
}
)",
                                    "-rdc=true");
  EXPECT_NE(find(compiled.module, "square"), nullptr);
  const auto names = opcodes(compiled.module);
  EXPECT_TRUE(names.contains("call"));
  bool masked = false, generic = false;
  for (const Variable& variable : compiled.module.variables)
    for (const Operand& value : variable.initial) {
      masked |= value.kind == Operand::Kind::identifier && value.bits == 0xFF00;
      generic |= value.generic;
    }
  EXPECT_TRUE(masked);
  EXPECT_TRUE(generic);
}

TEST_F(Nvcc, SwitchesAndLocalMemory) {
  std::string source = "__global__ void k(float* o, int n) {\n float local[64]; local[n & 63] = o[n];\n switch (n) {\n";
  for (int i = 0; i < 40; ++i)
    source += " case " + std::to_string(i) + ": o[" + std::to_string(i * 7 % 40) + "] = __sinf(o[" + std::to_string(i) +
              "] * local[n & " + std::to_string(i) + "]) / " + std::to_string(i + 3) + "; break;\n";
  const Compiled compiled = compile(source + " }\n}\n");
  ASSERT_EQ(compiled.module.functions.size(), 1U);
  int labels = 0, local = 0;
  for (const Statement& statement : compiled.module.functions[0].body.statements) {
    labels += std::holds_alternative<Label>(statement.what) ? 1 : 0;
    if (const auto* variable = std::get_if<Variable>(&statement.what)) local += variable->space == "local" ? 1 : 0;
  }
  EXPECT_GT(labels, 40);
  EXPECT_EQ(local, 1);
}

TEST_F(Nvcc, JumpTablesInInlineAssembly) {
  // This nvcc branches through a tree where others use a table; ptxas still judges what the printer makes of one.
  const Compiled compiled = compile(R"(
__global__ void k(unsigned* u) {
  unsigned out;
  asm volatile("{\n\tts: .branchtargets L0, L1;\n\tbrx.idx %1, ts;\n\tL0: mov.u32 %0, 5;\n\tbra L2;\n\t"
               "L1: mov.u32 %0, 0x7U;\n\tL2:\n\t}" : "=r"(out) : "r"(u[0]));
  u[1] = out;
}
)");
  EXPECT_TRUE(opcodes(compiled.module).contains("brx"));
}

TEST_F(Nvcc, AtomicsShufflesAndInlineAssembly) {
  const Compiled compiled = compile(R"(
__global__ void k(unsigned* u, unsigned long long* l, float* f, double* d) {
  unsigned lane, sum = __reduce_add_sync(~0u, u[0]);
  asm("{ .reg .u32 t; mov.u32 t, %%laneid; add.u32 %0, t, %1; }" : "=r"(lane) : "n"(-3));
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t@p red.global.add.u32 [%0+4], %1;\n\t}" ::"l"(u), "r"(sum));
  atomicMax(u + 1, lane); atomicExch(u, 3u); atomicCAS(l, 1ull, 2ull); atomicAdd(f, 1.f); atomicAdd(d, 2.0);
  unsigned any = __ballot_sync(~0u, lane > 3) + __match_any_sync(~0u, lane);
  u[2] = __shfl_xor_sync(~0u, lane, 4) + any + __popc(lane) + __byte_perm(lane, any, 0x1234);
  l[3] = __umul64hi(l[4], l[5]) + clock64();
  f[4] = fmaf(f[1], -0.1f, rsqrtf(f[2])) + fmodf(f[5], f[6]);
  d[1] = sin(d[2]) * 1e-300;
}
)");
  const auto names = opcodes(compiled.module);
  for (const char* name : {"atom", "shfl", "redux", "match", "vote", "prmt", "red"})
    EXPECT_TRUE(names.contains(name)) << name;
  // Inline assembly in braces is a scope of its own.
  bool scope = false;
  ASSERT_NE(find(compiled.module, "k"), nullptr);
  for (const Statement& statement : find(compiled.module, "k")->body.statements)
    scope |= std::holds_alternative<Block>(statement.what);
  EXPECT_TRUE(scope);
}

TEST_F(Nvcc, HalfPrecisionAndTensorCores) {
  const Compiled compiled = compile(R"(
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>
__global__ void k(const half* a, const half* b, float* c, __nv_bfloat162* e, __nv_fp8_e4m3* q) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
  e[0] = __hfma2(e[1], e[2], e[3]);
  q[0] = __nv_fp8_e4m3(c[3]);
  c[5] = __half2float(hexp(a[3])) + float(q[1]);
}
)");
  EXPECT_TRUE(opcodes(compiled.module).contains("wmma"));
  EXPECT_TRUE(opcodes(compiled.module).contains("cvt"));
}

TEST_F(Nvcc, LineInformation) {
  const Compiled compiled = compile(
      "template <class T> __forceinline__ __device__ T twice(T a) { return a + a; }\n"
      "__global__ void k(float* o) {\n"
      "  o[threadIdx.x] =\n"
      "      twice(o[0]);\n"
      "}\n",
      "-lineinfo");
  const Function* k = find(compiled.module, "k");
  ASSERT_NE(k, nullptr);
  bool found = false;
  each_instruction(k->body, [&](const Instruction& instruction) {
    if (instruction.opcode != "add" || instruction.modifiers.back() != "f32") return;
    ASSERT_GE(instruction.source, 0);
    const SourceLocation& place = k->sources.at(static_cast<std::size_t>(instruction.source));
    EXPECT_EQ(place.line, 1);
    EXPECT_EQ(place.function, "_Z5twiceIfET_S0_");
    ASSERT_TRUE(place.inlined_at);
    EXPECT_GE(place.inlined_at->line, 3);
    EXPECT_LE(place.inlined_at->line, 4);
    found = true;
  });
  EXPECT_TRUE(found);
  ASSERT_FALSE(compiled.module.files.empty());
  EXPECT_TRUE(compiled.module.files[0].path.ends_with("k.cu"));
}

TEST_F(Nvcc, ClustersAndAsynchronousCopiesOnSm90) {
  const Compiled compiled = compile(R"(
#include <cuda/barrier>
#include <cuda_pipeline.h>
__global__ void __cluster_dims__(2, 1, 1) k(const int4* in, int4* out, int n) {
  __shared__ alignas(16) int4 tile[128];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  auto token = barrier.arrive();
  barrier.wait(static_cast<decltype(token)&&>(token));
  out[threadIdx.x] = tile[threadIdx.x ^ n];
}
)",
                                    "", "sm_90");
  EXPECT_TRUE(opcodes(compiled.module).contains("mbarrier"));
  EXPECT_TRUE(opcodes(compiled.module).contains("cp"));
}

}  // namespace
}  // namespace flashmoe::vgpu::ptx
