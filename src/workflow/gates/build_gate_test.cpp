// The build gate on CUDA sources, with the real nvcc and no GPU. A machine without a toolkit fails here: the gate could
// not be shown to work.
#include <gtest/gtest.h>

#include "workflow/compile/compiler.hpp"
#include "workflow/gates/build_gate.hpp"
#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* softmax_source = R"(#include <cuda_fp16.h>
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) softmax_kernel(const T* x, T* y, int columns) {
  __shared__ float row[Threads];
  row[threadIdx.x] = static_cast<float>(x[threadIdx.x]);
  __syncthreads();
  y[threadIdx.x] = static_cast<T>(row[columns - 1 - threadIdx.x]);
}
template __global__ void softmax_kernel<float, 256>(const float*, float*, int);
template __global__ void softmax_kernel<__half, 128>(const __half*, __half*, int);
)";

CudaBuildFacts cuda_facts(const GateResult& result) {
  const auto* facts = std::get_if<BuildFacts>(&result.facts);
  return facts != nullptr ? facts->cuda.value_or(CudaBuildFacts{}) : CudaBuildFacts{};
}

// Everything the gate said, for a test that fails.
std::string said(const GateResult& result) {
  std::string text = result.summary;
  for (const Finding& finding : result.findings) text += "\n" + finding.what + " at " + finding.where;
  return text;
}

struct CudaBuild : testing::Test {
  ProjectForTest at;

  void SetUp() override {
    ASSERT_TRUE(find_cuda_toolkit()) << find_cuda_toolkit().error().to_string();
    at.project.cuda_sources = {"kernel.cu"};
    at.project.cuda_architectures = {"sm_89"};
    at.project.workloads = {{.name = "small", .values = {{"rows", 64}, {"columns", 128}}}};
  }
  CudaInstance& declare(const std::string& name, const std::string& grid, const std::string& block) {
    CudaInstance instance;
    instance.name = name;
    instance.source = "kernel.cu";
    instance.grid_x = grid;
    instance.block_x = block;
    instance.line = 20 + static_cast<int>(at.project.instances.size());
    at.project.instances.push_back(instance);
    return at.project.instances.back();
  }
  // Cubins of sources that several tests share are built once.
  static ProjectForTest& shared_cache() {
    static ProjectForTest cache;
    return cache;
  }
  GateResult run(const std::string& source) {
    at.write("kernel.cu", source);
    Progress progress(1, true);
    BuildOptions options;
    options.output_root = shared_cache().project.directory;
    return run_build_gate(at.project, options, progress).result;
  }
  // The gate fails with exactly one error, which is returned.
  Finding only_error(const GateResult& result) {
    EXPECT_EQ(result.outcome, Outcome::fails) << said(result);
    Finding found;
    int errors = 0;
    for (const Finding& finding : result.findings)
      if (finding.severity == Severity::error) {
        found = finding;
        ++errors;
      }
    EXPECT_EQ(errors, 1) << said(result);
    return found;
  }
};

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(CudaBuild, WhatIsDeclaredAndFitsHolds) {
  at.project.cuda_architectures = {"sm_80", "sm_89", "sm_90"};
  declare("softmax_kernel<float, 256>", "rows", "256");
  declare("softmax_kernel<half, 128u>", "rows", "128");  // another way to write the same instance
  const auto result = run(softmax_source);
  EXPECT_EQ(result.outcome, Outcome::holds) << said(result);
  const CudaBuildFacts facts = cuda_facts(result);
  ASSERT_EQ(facts.instances.size(), 6U);
  for (const InstanceFacts& instance : facts.instances) {
    const bool wide = instance.instance == "softmax_kernel<float, 256>";
    EXPECT_EQ(instance.static_shared_bytes, wide ? 1024 : 512) << instance.instance;
    EXPECT_EQ(instance.max_threads, wide ? 256 : 128);
    EXPECT_EQ(instance.spill_store_bytes, 0);
    EXPECT_GT(instance.registers, 4);
    EXPECT_LT(instance.registers, 64);
    EXPECT_DOUBLE_EQ(instance.workloads.at(0).occupancy, 1.0);
  }
  for (const CubinFacts& cubin : facts.cubins) EXPECT_EQ(cubin.sha256.size(), 64U);
}

TEST_F(CudaBuild, TheSecondRunTakesTheSameCubinsFromTheCache) {
  declare("dynamic", "rows", "128");
  at.write("kernel.cu", "extern \"C\" __global__ void dynamic(float* p) { *p = 1; }\n");
  Progress progress(1, true);
  const auto first = run_build_gate(at.project, {}, progress).result;
  const auto second = run_build_gate(at.project, {}, progress).result;
  EXPECT_FALSE(cuda_facts(first).cubins.at(0).from_cache);
  EXPECT_TRUE(cuda_facts(second).cubins.at(0).from_cache);
  EXPECT_EQ(cuda_facts(first).cubins.at(0).sha256, cuda_facts(second).cubins.at(0).sha256);
}

TEST_F(CudaBuild, AMissingInstantiationNamesTheLineToAdd) {
  declare("softmax_kernel<float, 512>", "rows", "512");
  const auto error = only_error(run(softmax_source));
  EXPECT_CONTAINS(error.what, "\"softmax_kernel<float, 512>\" is not in the cubin of kernel.cu");
  EXPECT_CONTAINS(error.what, "the closest that is there is \"softmax_kernel<float, 256>\"");
  EXPECT_EQ(error.fix,
            "add this line to kernel.cu: template __global__ void softmax_kernel<float, 512>(const float* x, "
            "float* y, int columns);");
  EXPECT_CONTAINS(error.where, "cudadent.toml:20");
}

// The line that the message asks for must be the cure.
TEST_F(CudaBuild, TheLineToAddCures) {
  declare("softmax_kernel<float, 512>", "rows", "512");
  const auto error = only_error(run(softmax_source));
  const auto line = error.fix.substr(error.fix.find("template __global__"));
  EXPECT_EQ(run(softmax_source + line + "\n").outcome, Outcome::holds);
}

TEST_F(CudaBuild, ATemplateNobodyInstantiatedNamesTheLineToo) {
  declare("lonely<__half, 4>", "rows", "32");
  const auto error = only_error(run(R"(#include <cuda_fp16.h>
template <typename T, int N = 2>
__global__ void lonely(T* out) { out[threadIdx.x * N] = T(0); }
)"));
  EXPECT_CONTAINS(error.what, "there is no kernel in it at all");
  EXPECT_EQ(error.fix, "add this line to kernel.cu: template __global__ void lonely<__half, 4>(__half* out);");
}

TEST_F(CudaBuild, ATypeMismatchIsNamed) {
  declare("convert<half>", "rows", "32");
  const auto error = only_error(run(R"(
namespace c10 { struct Half { unsigned short x; }; }
template <class T> __global__ void convert(T* p) { p[threadIdx.x] = T{}; }
template __global__ void convert<c10::Half>(c10::Half*);
)"));
  EXPECT_CONTAINS(error.what, "type mismatch (declared __half, instantiated c10::Half)");
  EXPECT_CONTAINS(error.fix, "instantiate with __half in kernel.cu");
}

TEST_F(CudaBuild, AnUndefinedDeviceFunctionIsNamed) {
  declare("scale", "rows", "32");
  const auto error = only_error(run(R"(
namespace ops { __device__ float helper(float, int); }
__global__ void scale(float* p) { *p = ops::helper(*p, 3); }
)"));
  EXPECT_CONTAINS(error.what, "undefined symbol: kernel.cu calls \"ops::helper(float, int)\"");
  EXPECT_CONTAINS(error.fix, "define it in kernel.cu");
}

TEST_F(CudaBuild, SeparateCompilationIsCheckedAcrossFiles) {
  at.project.cuda_sources = {"kernel.cu", "helper.cu"};
  at.project.cuda_flags = {"-rdc=true"};
  declare("scale", "rows", "32");
  const char* kernel = "__device__ float helper(float);\n__global__ void scale(float* p) { *p = helper(*p); }\n";
  at.write("helper.cu", "__device__ float helper(float x) { return 2 * x; }\n");
  EXPECT_EQ(run(kernel).outcome, Outcome::holds);
  at.write("helper.cu", "__device__ float other(float x) { return 2 * x; }\n");
  EXPECT_CONTAINS(only_error(run(kernel)).what, "calls \"helper(float)\", which no source of the project defines");
}

TEST_F(CudaBuild, FiftyTwoKilobytesOfStaticSharedMemoryAreStoppedForAnL4) {
  declare("big", "rows", "256");
  const auto error = only_error(run(R"(
__global__ void big(float* p) {
  __shared__ float tile[13 * 1024];
  tile[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = tile[(threadIdx.x * 7) % 13312];
}
)"));
  EXPECT_CONTAINS(error.what, "53248 bytes of static shared memory (52.0 KB); at most 49152 (48 KB) may be static");
  EXPECT_CONTAINS(error.what, "ptxas error");  // the tool's own words are kept
  EXPECT_CONTAINS(error.fix, "extern __shared__");
  EXPECT_CONTAINS(error.fix, "shared_bytes = \"53248\"");
}

constexpr const char* dynamic_source = R"(
extern "C" __global__ void dynamic(float* p) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = tile[threadIdx.x ^ 1];
}
)";

TEST_F(CudaBuild, DynamicSharedMemoryCountsPerWorkload) {
  declare("dynamic", "rows", "128").dynamic_shared_bytes = "columns * 1024";
  at.project.workloads.push_back({.name = "wide", .values = {{"rows", 64}, {"columns", 99}}});
  at.project.workloads.front().values["columns"] = 52;
  EXPECT_EQ(run(dynamic_source).outcome, Outcome::holds);
  at.project.workloads.back().values["columns"] = 100;
  const auto error = only_error(run(dynamic_source));
  EXPECT_CONTAINS(
      error.what,
      "needs 102400 bytes of shared memory (0 static + 102400 dynamic); NVIDIA L4, sm_89 has at most 101376");
  EXPECT_CONTAINS(error.where, "workload wide");
  EXPECT_CONTAINS(error.fix, "at least 1024 bytes less");
}

TEST_F(CudaBuild, ThePointReachesTheCompilerAndTheGeometry) {
  at.project.tunables = {{.name = "tile", .choices = {32, 64}}};
  at.project.point = {{"tile", 32}};
  declare("tiled", "rows", "4 * tile").dynamic_shared_bytes = "1024 * tile";
  const std::string source =
      "extern \"C\" __global__ void tiled(float* p) {\n  __shared__ float a[TILE];\n"
      "  a[threadIdx.x % TILE] = p[0];\n  __syncthreads();\n  p[threadIdx.x] = a[0];\n}\n";
  const auto small = cuda_facts(run(source)).instances.at(0);
  EXPECT_EQ(small.static_shared_bytes, 128);
  EXPECT_EQ(small.workloads.at(0).block, (std::array<std::int64_t, 3>{128, 1, 1}));
  at.project.point["tile"] = 64;
  const auto large = cuda_facts(run(source)).instances.at(0);
  EXPECT_EQ(large.static_shared_bytes, 256);
  EXPECT_EQ(large.workloads.at(0).dynamic_shared_bytes, 65536);
}

TEST_F(CudaBuild, WhatIsNotLaunchedForAWorkloadNeedNotFit) {
  declare("dynamic", "rows", "128").dynamic_shared_bytes = "columns * 1024";
  at.project.workloads.push_back({.name = "wide", .values = {{"rows", 64}, {"columns", 100}}});
  at.project.workloads.front().values["columns"] = 52;
  at.project.instances.back().when = "columns < 100";
  const auto result = run(dynamic_source);
  EXPECT_EQ(result.outcome, Outcome::holds) << said(result);
  EXPECT_EQ(cuda_facts(result).instances.at(0).workloads.size(), 1U);
}

constexpr const char* spilling_source = R"(
__global__ void __launch_bounds__(1024, 1) heavy(const float* a, float* b) {
  float r[80];
#pragma unroll
  for (int i = 0; i < 80; i++) r[i] = a[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 80; i++) b[i * 1024 + threadIdx.x] = r[i] * r[(i * 7 + 3) % 80];
}
)";

TEST_F(CudaBuild, ASpillingInstanceIsStopped) {
  CudaInstance& heavy = declare("heavy", "rows", "1024");
  const auto error = only_error(run(spilling_source));
  EXPECT_CONTAINS(error.what, "heavy spills ");
  EXPECT_CONTAINS(error.what, "__launch_bounds__ 1024");
  EXPECT_CONTAINS(error.fix, "max_spill_bytes = ");
  const InstanceFacts figures = cuda_facts(run(spilling_source)).instances.at(0);
  EXPECT_EQ(figures.registers, 65536 / 1024);           // all that 1024 threads leave for each
  EXPECT_GE(figures.spill_store_bytes, 4 * (80 - 64));  // 80 values are live at once
  EXPECT_GE(figures.spill_load_bytes, 4 * (80 - 64));
  EXPECT_GE(figures.frame_bytes, 4 * (80 - 64));
  heavy.max_spill_bytes = 4096;
  EXPECT_EQ(run(spilling_source).outcome, Outcome::holds);
}

TEST_F(CudaBuild, ALocalArrayIsNoSpill) {
  declare("indexed", "rows", "128");
  const auto result = run(R"(
__global__ void indexed(const float* a, float* b, int n) {
  float r[60];
  for (int i = 0; i < 60; i++) r[i] = a[i * n];
  for (int i = 0; i < n; i++) r[int(a[i])] += b[i];
  for (int i = 0; i < 60; i++) b[i] = r[(i * n) % 60];
}
)");
  EXPECT_EQ(result.outcome, Outcome::holds) << said(result);
  EXPECT_EQ(cuda_facts(result).instances.at(0).spill_store_bytes, 0);
  EXPECT_EQ(cuda_facts(result).instances.at(0).frame_bytes, 240);
}

TEST_F(CudaBuild, OccupancyBelowTheDeclaredIsStopped) {
  CudaInstance& instance = declare("dynamic", "rows", "128");
  instance.dynamic_shared_bytes = "40 * 1024";
  instance.min_occupancy = 0.5;
  const auto error = only_error(run(dynamic_source));
  EXPECT_CONTAINS(error.what, "occupancy 17 % (2 CTAs per SM); at least 50 % is required; limited by shared memory");
}

TEST_F(CudaBuild, TwoCtasOnFiftyEightMultiprocessorsAreAWarning) {
  declare("dynamic", "2", "128");
  const auto result = run(dynamic_source);
  EXPECT_EQ(result.outcome, Outcome::holds);
  bool warned = false;
  for (const Finding& finding : result.findings)
    if (finding.severity == Severity::warning) {
      warned = true;
      EXPECT_CONTAINS(finding.what, "2 CTAs on 58 SMs of the NVIDIA L4: 3.4 % of the machine, 0.00 waves");
      EXPECT_CONTAINS(finding.fix, "more parallelism first");
    }
  EXPECT_TRUE(warned);
}

TEST_F(CudaBuild, ABlockBeyondTheLaunchBoundsIsStopped) {
  declare("softmax_kernel<__half, 128>", "rows", "256");
  const auto error = only_error(run(softmax_source));
  EXPECT_CONTAINS(error.what, "256 threads per CTA; at most 128 by its __launch_bounds__");
}

TEST_F(CudaBuild, AnEmptyGridIsStopped) {
  declare("softmax_kernel<float, 256>", "rows - 64", "256");
  EXPECT_CONTAINS(only_error(run(softmax_source)).what, "grid.x is 0; 1 to 2147483647 are allowed");
}

TEST_F(CudaBuild, ACompileErrorKeepsFileLineAndText) {
  declare("broken", "1", "32");
  const auto error = only_error(run("__global__ void broken(float* p) {\n  *p = unknown_name;\n}\n"));
  EXPECT_CONTAINS(error.what, "kernel.cu(2): error: identifier \"unknown_name\" is undefined");
}

TEST_F(CudaBuild, ASlowCompilerIsStoppedAndNamed) {
  declare("softmax_kernel<float, 256>", "rows", "256");
  at.write("kernel.cu", softmax_source);
  Progress progress(1, true);
  BuildOptions options;
  options.compile_limit = std::chrono::milliseconds(1);
  const auto error = only_error(run_build_gate(at.project, options, progress).result);
  EXPECT_CONTAINS(error.what, "timed out");
}

TEST_F(CudaBuild, WithoutAToolkitTheGateCouldNotRun) {
  declare("softmax_kernel<float, 256>", "rows", "256");
  setenv("CUDACXX", "/nowhere/nvcc", 1);
  const auto result = run(softmax_source);
  unsetenv("CUDACXX");
  EXPECT_EQ(result.outcome, Outcome::could_not_run);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_CONTAINS(result.findings.front().what, "/nowhere/nvcc");
  EXPECT_CONTAINS(result.findings.front().fix, "install the CUDA toolkit");
}

}  // namespace
}  // namespace flashmoe::workflow
