// From the PTX of our kernels, as it ran on the virtual GPU, to the SASS that ships: the path that is found runs every
// block of the SASS as often as its PTX ran, but for two in a hundred instructions.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "cuda/image_entries.hpp"
#include "predict/walk.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/environment/nvdisasm.hpp"
#include "workflow/predict/nvdisasm.hpp"
#include "workflow/predict/ptx_run_json.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& paths_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);  // tiles and splits are forced
    setenv("VGPU_PATHS", "1", 1);
    return Gpu({.device = "l4", .checks = "none"});
  }();
  return only;
}

// The image as a file.
std::string written(const std::filesystem::path& path, const std::string& kernel, int architecture) {
  const FatbinEntry image = image_entry(kernel, architecture);
  std::ofstream file(path, std::ios::binary);
  if (architecture == 0) {
    file << image.text();  // without the zeros behind it
  } else {
    file.write(reinterpret_cast<const char*>(image.bytes.data()), static_cast<std::streamsize>(image.bytes.size()));
  }
  return path.string();
}

predict::SassKernel only_kernel(const std::string& cubin) {
  auto kernels = must(workflow::sass_of(must(workflow::find_nvdisasm()), cubin));
  if (kernels.size() != 1) throw std::runtime_error(cubin + " has " + std::to_string(kernels.size()) + " kernels");
  return std::move(kernels.front());
}

// ptxas -lineinfo of the PTX that ships, and of nothing else.
predict::SassKernel lined_sass(const std::string& kernel) {
  const TemporaryDirectory scratch;
  const std::string text = written(scratch.path() / "k.ptx", kernel, 0), cubin = (scratch.path() / "k.cubin").string();
  const Finished ran = must(run_process({.argv = {FMS_PTXAS, "-O3", "-lineinfo", "-arch=sm_89", text, "-o", cubin}}));
  if (!ran.ok()) throw std::runtime_error(ran.err);
  return only_kernel(cubin);
}

predict::PtxRun report_of(const CoreProblem& core) {
  static_cast<void>(paths_gpu().reports());
  AttentionCase one = core.with_data();
  const RunResult result = paths_gpu().run(one, &core.options);
  if (result.status != FMS_OK) throw std::runtime_error(core.name + ": " + to_string(result.error));
  return must(workflow::ptx_run_from(paths_gpu().reports().front()));
}

struct Problem {
  const char* name;
  Shape shape;  // batch, q_heads, kv_heads, q_len, kv_len, head_dim
  int32_t q_tile;
  int32_t kv_splits;
  bool is_causal;
};
constexpr Problem problems[] = {
    {"large, d 64", {1, 2, 2, 128, 512, 64}, 64, 1, false},
    {"large, d 64, causal", {1, 1, 1, 256, 256, 64}, 64, 1, true},
    {"wide, d 128, causal", {1, 1, 1, 256, 256, 128}, 128, 1, true},
    {"small, d 64", {1, 1, 1, 64, 256, 64}, 32, 1, false},
    {"decode, d 128", {1, 8, 2, 1, 1024, 128}, 16, 1, false},
    {"decode, d 64, split", {1, 4, 1, 1, 1024, 64}, 16, 4, false},
};

CoreProblem made(const Problem& each) {
  CoreProblem core{each.name, simple_problem(FMS_F16, each.shape), {}, plan_options(0, each.kv_splits, each.q_tile)};
  if (each.is_causal) core.problem.window_right = 0;
  return core;
}

TEST(Paths, OurKernelsAreMatched) {
  for (const Problem& each : problems) {
    SCOPED_TRACE(each.name);
    const predict::PtxRun run = report_of(made(each));
    const predict::SassKernel kernel = lined_sass(run.kernel);
    const predict::SassPaths paths = must(predict::sass_paths(kernel, run));
    std::cout << "  " << each.name << ": " << run.kernel << ", " << 100 * paths.unmatched_weight << " % unmatched\n";
    EXPECT_LE(paths.unmatched_weight, predict::most_unmatched_weight);
    // Products of matrices are never copied, left out or moved out of their loop: each has run as often as in the PTX.
    for (std::size_t i = 0; i < run.ctas.size(); ++i) {
      std::uint64_t products = 0;
      for (const predict::WarpPath& warp : paths.ctas[i].warps)
        for (const std::uint32_t at : warp.instructions) products += kernel.instructions[at].base() == "HMMA" ? 1 : 0;
      EXPECT_EQ(products, run.totals.at(run.ctas[i].place).mma);
    }
  }
}

// What is disassembled for its lines is what ships.
TEST(Paths, LinesDoNotChangeTheCode) {
  for (const char* name : {"forward_f16_d64_large", "forward_f16_d128_wide", "forward_bf16_d128_decode_paged"}) {
    SCOPED_TRACE(name);
    const TemporaryDirectory scratch;
    const predict::SassKernel shipped = only_kernel(written(scratch.path() / "shipped.cubin", name, 89));
    const predict::SassKernel lined = lined_sass(name);
    ASSERT_EQ(shipped.instructions.size(), lined.instructions.size());
    for (std::size_t i = 0; i < lined.instructions.size(); ++i) {
      EXPECT_EQ(shipped.instructions[i].opcode, lined.instructions[i].opcode);
      EXPECT_EQ(shipped.instructions[i].operands, lined.instructions[i].operands);
      EXPECT_EQ(shipped.instructions[i].control, lined.instructions[i].control);
    }
  }
}

}  // namespace
}  // namespace flashmoe::testing
