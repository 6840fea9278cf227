// Tests that cannot fail prove nothing. The forward kernel with one thing taken out, compiled by NVRTC: each time the
// virtual GPU's checks, its counters or the oracle must notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cuda/gpu_run.hpp"
#include "kernels/cuda/jit/nvrtc.hpp"
#include "kernels/cuda/launch/forward_params.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);
    setenv("VGPU_SCHEDULE", "adversarial", 0);
    return Gpu();
  }();
  return only;
}

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}

struct Mutation {
  const char* name;
  const char* file;  // of kernels/cuda/; null: none
  const char* from;
  const char* to;
};

// Every place in the file is changed; none is an error, so that a mutation does not outlive the code it is about.
std::vector<char> mutated_kernel(const cuda::InstanceAxes& axes, const Mutation& mutation) {
  std::vector<std::string> texts;
  std::vector<cuda::Source> sources;
  int changed = 0;
  texts.reserve(cuda::device_sources().size());
  for (const cuda::Source& source : cuda::device_sources()) {
    std::string& text = texts.emplace_back(source.text);
    if (mutation.file != nullptr && source.name == std::string("kernels/cuda/") + mutation.file) {
      const std::string from = mutation.from, to = mutation.to;
      for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), ++changed)
        text.replace(at, from.size(), to);
    }
    sources.push_back({source.name, text.c_str()});
  }
  if (mutation.file != nullptr && changed == 0) throw std::runtime_error(std::string(mutation.name) + ": no such text");
  const std::vector<std::string> options = {"--std=c++20",
                                            "--device-as-default-execution-space",
                                            "--gpu-architecture=compute_80",
                                            "-DFMS_NAME=" + axes.name(),
                                            "-DFMS_ELEMENT=Half",
                                            "-DFMS_DIM=" + std::to_string(axes.dim),
                                            "-DFMS_TILE_CLASS=small",
                                            "-DFMS_PAGED=0",
                                            "-DFMS_MODIFIED=0"};
  return must(must(cuda::Nvrtc::open()).compile(cuda::main_source_name, sources, options, cuda::ImageKind::ptx));
}

struct Noticed {
  bool finding, wrong, conflict;
};

// Causal, with whole blocks before the diagonal, key warps and splits.
Noticed noticed(const Mutation& mutation) {
  fms_attention_problem problem = simple_problem(FMS_F16, {1, 1, 1, 40, 1000, 64});
  problem.window_right = 0;
  AttentionCase one = normal_case(problem);
  const fms_plan_options options = plan_options(0, 2, 32);
  fms_attention_plan plan{};
  if (fms_attention_plan_make(gpu().context(), &problem, &options, &plan, nullptr) != FMS_OK)
    throw std::runtime_error("no plan");
  const cuda::InstanceAxes axes = cuda::axes_of(plan.instance);
  const std::vector<char> image = mutated_kernel(axes, mutation);
  const auto module = must(runtime::Module::load(gpu().device(), std::as_bytes(std::span(image))));
  const runtime::Function kernel = must(module->function(axes.name()));

  const DeviceCase there(gpu(), one);
  runtime::Buffer workspace = must(runtime::Buffer::create(gpu().device(), plan.workspace_bytes));
  must(workspace.write(std::vector<std::byte>(workspace.bytes())));
  cuda::ForwardParams params =
      cuda::forward_params(plan, axes, there.args(), reinterpret_cast<std::byte*>(workspace.address()));
  runtime::Geometry geometry;
  const auto splits = static_cast<unsigned>(plan.kv_splits);
  geometry.grid = {static_cast<unsigned>(plan.work_items) / splits, 1, splits};
  geometry.block = {static_cast<unsigned>(plan.threads), 1, 1};
  geometry.dynamic_shared_bytes = static_cast<unsigned>(cuda::shared_bytes(axes.tile(), axes.dim));
  void* arguments[] = {&params};
  static_cast<void>(gpu().reports());
  must(kernel.launch(geometry, arguments));
  must(gpu().device()->synchronize());
  there.copy_back(one);
  const auto report = nlohmann::json::parse(gpu().reports().at(0));
  double conflicts = 0;
  for (const auto& metric : report.at("metrics"))
    if (metric.at("name") == "vgpu__shared_bank_conflicts.sum") conflicts = metric.at("value").get<double>();
  return {!report.at("findings").empty(), !judge(one, OracleAnswer(one)).complaint.empty(), conflicts > 0};
}

TEST(Mutations, TheKernelAsItIsIsClean) {
  const Noticed none = noticed({"nothing", nullptr, nullptr, nullptr});
  EXPECT_FALSE(none.finding);
  EXPECT_FALSE(none.wrong);
  EXPECT_FALSE(none.conflict);
}

TEST(Mutations, WhatIsTakenOutIsMissed) {
  constexpr Mutation synchronisation[] = {
      {"waits for copies", "attention/walk.cuh", "wait_for_copies<0>();", ""},
      {"barriers of the walk", "attention/walk.cuh", "__syncthreads();", ""},
      {"barriers of the end", "attention/finish.cuh", "__syncthreads();", ""},
      {"fences around the counter", "attention/finish.cuh", "__threadfence();", ""},
      {"the warp's barrier before the result", "attention/finish.cuh", "__syncwarp();", ""},
  };
  for (const Mutation& mutation : synchronisation) EXPECT_TRUE(noticed(mutation).finding) << mutation.name;
}

TEST(Mutations, WrongRulesGiveWrongResults) {
  constexpr Mutation rules[] = {
      {"the mask", "attention/score_rules.cuh", "s = minus_infinity;", "{}"},
      {"the fading of what was met before", "attention/row_state.cuh", "sum[h] *= factor;", ""},
      {"the order of a pair", "atoms/mma.cuh", ": \"f\"(high), \"f\"(low)", ": \"f\"(low), \"f\"(high)"},
      {"the unit of splits", "attention/sequence.cuh", "min(begin + units * split_unit, keys.hi)", "keys.hi"},
  };
  for (const Mutation& mutation : rules) EXPECT_TRUE(noticed(mutation).wrong) << mutation.name;
}

TEST(Mutations, RowsWithoutASwizzleMeetInBanks) {
  EXPECT_TRUE(noticed({"the swizzle", "atoms/shared_memory.cuh", "chunk ^ (row", "chunk | 0 & (row"}).conflict);
}

}  // namespace
}  // namespace flashmoe::testing
