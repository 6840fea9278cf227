// Which part of the work each CTA takes: the kernel of a plan, stopped where a CTA knows it.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "cuda/gpu_run.hpp"
#include "cuda/mutated_kernel.hpp"
#include "kernels/cuda/launch/forward_params.hpp"

namespace flashmoe::testing {

// As in attention/work_list.cuh.
struct Item {
  int sequence, kv_head, first_row, split, splits, states, counter;
};

// In the order in which CTAs begin; beside the stop one thing may be wrong. Arrays of `args` are on the device.
inline std::vector<Item> handed_out_items(const Gpu& gpu, const fms_attention_plan& plan, fms_attention_args args,
                                          double l2_resident_bytes,
                                          const Mutation& wrong = {"nothing", nullptr, nullptr, nullptr}) {
  const cuda::InstanceAxes axes = cuda::axes_of(plan.instance);
  const Mutation of_list = {"items of the list handed out", "attention/forward.cuh", "if (listed.sequence < 0) return;",
                            "if (threadIdx.x == 0) reinterpret_cast<Item*>(params.o)[blockIdx.x] = listed; return;"};
  const Mutation of_grid = {"items of the grid handed out", "attention/forward.cuh", "RowState<Shape> state;",
                            "if (threadIdx.x == 0) reinterpret_cast<Item*>(params.o)[blockIdx.x + gridDim.x * "
                            "(blockIdx.y + gridDim.y * blockIdx.z)] = item_of_grid<Shape>(params);\n"
                            "  return; RowState<Shape> state;"};
  const Mutation mutations[] = {wrong, plan.kv_splits == 0 ? of_list : of_grid};
  const std::vector<char> image = mutated_kernel(axes, mutations);
  const auto module = must(runtime::Module::load(gpu.device(), std::as_bytes(std::span(image))));
  const runtime::Function kernel = must(module->function(axes.name()));
  std::vector<Item> items(static_cast<std::size_t>(plan.work_items));
  runtime::Buffer there = must(runtime::Buffer::create(gpu.device(), items.size() * sizeof(Item)));
  args.o = reinterpret_cast<void*>(there.address());
  cuda::ExtendedParams params = cuda::forward_params(plan, axes, args, nullptr, l2_resident_bytes);
  const cuda::LaunchGrid grid = cuda::launch_grid(params);
  runtime::Geometry geometry;
  geometry.grid = {grid.x, grid.y, grid.z};
  geometry.block = {static_cast<unsigned>(plan.threads), 1, 1};
  geometry.dynamic_shared_bytes = static_cast<unsigned>(axes.shared_bytes());
  void* arguments[] = {&params};
  must(kernel.launch(geometry, arguments));
  must(gpu.device()->synchronize());
  static_cast<void>(gpu.reports());
  std::vector<std::byte> bytes(items.size() * sizeof(Item));
  must(there.read(bytes));
  std::memcpy(items.data(), bytes.data(), bytes.size());
  return items;
}

}  // namespace flashmoe::testing
