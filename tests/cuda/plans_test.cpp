// The planner's choices on every GPU of the table, with the occupancy of the shipped kernels there: one line a problem,
// one column a GPU, rows of a tile and how many ways the keys are split. plans_test.golden holds them, with the
// registers that ptxas 13.0 gives the kernels; FMS_REBASE=1 cuda_plans_test writes them as they are now: read the
// difference before it is committed. What every plan has to keep, whatever the problem: plan_laws_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cuda/image_entries.hpp"
#include "cuda/table_kernels.hpp"
#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "images/cubin.hpp"
#include "kernels/cuda/launch/instances.hpp"
#include "plan/planner.hpp"
#include "support/simple_case.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::testing {
namespace {

// The listed fp16 kernels without pages and modified scores, as a device of this GPU would find them.
class TableKernels final : public plan::CudaKernels {
 public:
  explicit TableKernels(const Gpu& gpu) : architecture_(*find_architecture(std::string(gpu.architecture))) {
    for (const cuda::InstanceAxes& axes : cuda::listed_instances()) {
      const auto cubin = read_cubin(image_entry(axes.name(), architecture_.sm()).bytes);
      if (cubin) compiled_.emplace(axes.name(), cubin->kernels.at(0));
    }
  }

  fms_status find(const fms_attention_problem& problem, plan::CudaKernel (&found)[max_found], int* count,
                  fms_error*) const override {
    *count = 0;
    for (int i = 0; i < cuda::tile_classes; ++i) {
      std::optional<cuda::InstanceAxes> best;
      for (const cuda::InstanceAxes& one : cuda::listed_instances()) {
        if (one.dtype != FMS_F16 || one.is_paged || one.is_modified || one.value_dim != 0 ||
            static_cast<int>(one.tile_class) != i)
          continue;
        if (one.dim >= problem.head_dim && (!best || one.dim < best->dim)) best = one;
      }
      if (!best) continue;
      const cuda::Tile tile = best->tile();
      const CubinKernel& kernel = compiled_.at(best->name());
      const int held = occupancy(architecture_, {kernel.registers, tile.threads(), kernel.static_shared_bytes,
                                                 best->shared_bytes(), kernel.barriers})
                           .ctas_per_sm;
      found[(*count)++] = {cuda::code_of(*best),
                           best->dim,
                           tile.rows(),
                           tile.keys,
                           tile.threads(),
                           held,
                           int64_t{best->tile_state_floats()} * int64_t{sizeof(float)}};
    }
    return FMS_OK;
  }

 private:
  Architecture architecture_;
  std::map<std::string, CubinKernel> compiled_;
};

std::vector<fms_attention_problem> problems() {
  std::vector<fms_attention_problem> all;
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t rows : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192})
      for (const auto& [batch, heads] : {std::pair<int64_t, int64_t>{1, 1}, {1, 16}, {8, 16}}) {
        all.push_back(simple_problem(FMS_F16, {batch, heads, heads, rows, rows, head_dim}));
        if (rows < 512) continue;
        all.push_back(all.back());
        all.back().window_right = 0;
      }
    for (const auto& [batch, rows, keys] : {std::array<int64_t, 3>{1, 1024, 64}, {4, 512, 77}, {8, 128, 136}})
      all.push_back(simple_problem(FMS_F16, {batch, 16, 16, rows, keys, head_dim}));
    for (const int64_t keys : {256, 1024, 4096, 32768, 131072})
      for (const auto& [batch, heads] : {std::pair<int64_t, int64_t>{1, 8}, {1, 32}, {16, 32}})
        all.push_back(simple_problem(FMS_F16, {batch, heads, 8, 1, keys, head_dim}));
  }
  return all;
}

std::string plans() {
  std::deque<TableKernels> kernels;
  std::string text = "batch heads kv     rows     keys  dim         ";
  char cell[64];
  for (const Gpu& gpu : all_gpus()) {
    kernels.emplace_back(gpu);
    std::snprintf(cell, sizeof cell, " %10s", std::string(gpu.id).c_str());
    text += cell;
  }
  text += '\n';
  for (const fms_attention_problem& p : problems()) {
    std::snprintf(cell, sizeof cell, "%5lld %5lld %2lld %8lld %8lld %4lld %s", static_cast<long long>(p.batch),
                  static_cast<long long>(p.q_heads), static_cast<long long>(p.kv_heads),
                  static_cast<long long>(p.q_len), static_cast<long long>(p.kv_len), static_cast<long long>(p.head_dim),
                  p.window_right == 0 ? "causal " : "       ");
    text += cell;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      plan::DeviceCaps caps;
      caps.kind = FMS_DEVICE_CUDA;
      caps.gpu = planner_figures(driver_answers(all_gpus()[i]));
      caps.cuda_kernels = &kernels[i];
      fms_attention_plan plan{};
      fms_error error{};
      const fms_status status = plan::make_plan(caps, p, nullptr, &plan, &error);
      std::snprintf(cell, sizeof cell, " %5d/%-4d", plan.q_tile, plan.kv_splits);
      text += status == FMS_OK ? cell : error.message;
    }
    text += '\n';
  }
  return text;
}

TEST(Images, HaveEveryListedKernelAsPtx) {
  for (const cuda::InstanceAxes& axes : cuda::listed_instances())
    EXPECT_NE(image_entry(axes.name(), 0).text().find(".entry " + axes.name() + "("), std::string::npos) << axes.name();
}

TEST(Plans, StayAsTheyAreUnlessMeant) {
  const std::string golden = in_sources("tests/cuda/plans_test.golden");
  const std::string made = plans();
  if (std::getenv("FMS_REBASE") != nullptr) std::ofstream(golden) << made;
  std::ifstream file(golden);
  const std::string held{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(made, held) << "if the new plans are meant: FMS_REBASE=1 cuda_plans_test";
}

}  // namespace

std::unique_ptr<plan::CudaKernels> table_kernels(const Gpu& gpu) {
  return std::make_unique<TableKernels>(gpu);
}

}  // namespace flashmoe::testing
