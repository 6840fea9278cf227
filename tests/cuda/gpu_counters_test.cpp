// What the kernels do to memory, as the virtual GPU counts it: no bank conflict, whole sectors, and no byte of DRAM
// that the problem does not need. Every instance of the list, on problems whose rows begin at multiples of 16 bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "kernels/cuda/launch/instances.hpp"
#include "support/judge.hpp"

namespace flashmoe::testing {
namespace {

using cuda::InstanceAxes;
using cuda::Tile;

const Gpu& counters_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);  // tiles and splits are forced
    return Gpu({.device = "l4", .checks = "none"});
  }();
  return only;
}

// Two tiles of rows for each of two heads, and whole blocks of keys enough for the loop without masks.
CoreProblem aligned_problem(const InstanceAxes& axes) {
  const Tile tile = axes.tile();
  const int64_t kv_len = 8 * tile.keys;
  CoreProblem one{axes.name(),
                  simple_problem(axes.dtype, {1, 2, 2, 2 * tile.rows(), kv_len, axes.dim}),
                  {},
                  plan_options(0, 1, tile.rows())};
  if (axes.value_dim != 0) set_value_dim(one, axes.value_dim);
  if (axes.is_modified) {
    one.problem.softcap = 30;
    add_bias(one, axes.dtype);
  }
  if (axes.is_paged) make_paged(one, 32, {static_cast<int32_t>(kv_len)});
  return one;
}

nlohmann::json report_of(const CoreProblem& core, AttentionCase& one) {
  static_cast<void>(counters_gpu().reports());
  const RunResult result = counters_gpu().run(one, &core.options);
  if (result.status != FMS_OK) throw std::runtime_error(core.name + ": " + to_string(result.error));
  const auto reports = counters_gpu().reports();
  if (reports.size() != 1) throw std::runtime_error(core.name + ": " + std::to_string(reports.size()) + " launches");
  return nlohmann::json::parse(reports.front());
}

// Instructions whose count of `what` is not the ideal one, with their text.
std::string excess(const nlohmann::json& report, const char* what, const char* ideal) {
  std::string found;
  for (const auto& line : report.at("ptx_lines")) {
    if (!line.contains(what) || line.at(what) == line.at(ideal)) continue;
    found += "  " + line.at(what).dump() + " for " + line.at(ideal).dump() + ": " + line.at("text").get<std::string>() +
             '\n';
  }
  return found;
}

double executed(const nlohmann::json& report, const std::string& operation) {
  double count = 0;
  for (const auto& line : report.at("ptx_lines"))
    if (line.at("text").get<std::string>().find(operation) != std::string::npos)
      count += line.at("inst_executed").get<double>();
  return count;
}

TEST(Counters, EveryInstanceIsFreeOfBankConflictsAndMovesWholeSectors) {
  for (const InstanceAxes& axes : cuda::listed_instances()) {
    const CoreProblem core = aligned_problem(axes);
    SCOPED_TRACE(core.name);
    AttentionCase one = core.with_data();
    const nlohmann::json report = report_of(core, one);
    EXPECT_EQ(report.at("kernel"), axes.name()) << "what runs is what was asked for";
    // Kernels with pages and modified scores have no interior loop.
    if (!(axes.is_paged && axes.is_modified)) {
      // A step of the loop for edges asks all threads of what they saw.
      EXPECT_LT(4 * executed(report, "bar.red"), executed(report, "bar.sync")) << "the loop without masks has run";
    }
    EXPECT_EQ(metric(report, "vgpu__shared_bank_conflicts.sum"), 0)
        << excess(report, "shared_wavefronts", "shared_wavefronts_ideal");
    EXPECT_EQ(excess(report, "global_sectors", "global_sectors_ideal"), "");
    // The result itself: every byte of it is stored once, in whole sectors.
    const fms_attention_problem& p = core.problem;
    const auto o_sectors = static_cast<double>(p.q_heads * p.q_len * p.value_dim * 2) / 32;
    const auto lse_sectors = static_cast<double>(p.q_heads * p.q_len * 4) / 32;
    EXPECT_EQ(metric(report, "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"), o_sectors + lse_sectors);
    // The products of the problem and not one more: no tile is computed twice or in vain.
    const auto useful =
        static_cast<double>(p.q_heads * p.q_len * p.kv_len * (p.head_dim + p.value_dim)) / (16 * 8 * 16);
    EXPECT_EQ(executed(report, "mma.sync"), useful);
  }
}

// Triangle attention: many small heads, and a bias for every score. All of a call counts, its beginning and its end
// too.
TEST(Counters, ABiasOfDenseRowsCostsAtMostThirtyInstructionsAScore) {
  for (const fms_dtype bias_dtype : {FMS_F16, FMS_BF16, FMS_F32}) {
    CoreProblem core{"bias", simple_problem(FMS_F16, {4, 4, 4, 256, 256, 32}), {}, plan_options(0, 0, 0)};
    add_bias(core, bias_dtype);
    AttentionCase one = core.with_data();
    const nlohmann::json report = report_of(core, one);
    const fms_attention_problem& p = core.problem;
    const auto scores = static_cast<double>(p.batch * p.q_heads * p.q_len * p.kv_len);
    double of_threads = 0;
    for (const auto& line : report.at("ptx_lines")) of_threads += line.at("thread_inst_executed").get<double>();
    std::cout << "  " << report.at("kernel") << ": " << of_threads / scores
              << " thread instructions a score (virtual)\n";
    EXPECT_LE(of_threads, 30 * scores);
    EXPECT_EQ(executed(report, "mma.sync"), scores * static_cast<double>(2 * p.head_dim) / (16 * 8 * 16));
    EXPECT_EQ(excess(report, "global_sectors", "global_sectors_ideal"), "");
    EXPECT_EQ(metric(report, "vgpu__shared_bank_conflicts.sum"), 0);
  }
}

struct Traffic {
  const char* name;
  Shape shape;
  int32_t q_tile;
  bool is_causal;
};
constexpr Traffic traffic_cases[] = {
    {"large, d 64", {1, 2, 2, 256, 512, 64}, 64, false},
    {"large, d 64, causal", {1, 2, 2, 256, 256, 64}, 64, true},
    {"large, d 128, GQA", {1, 4, 2, 128, 256, 128}, 64, true},
    {"large, d 96", {1, 1, 1, 128, 256, 96}, 64, false},
    {"small, d 64", {2, 2, 2, 64, 256, 64}, 32, false},
    {"decode, d 128, GQA", {2, 8, 2, 1, 1024, 128}, 16, false},
    {"wide, d 64", {1, 2, 2, 256, 512, 64}, 128, true},
    {"large, d 256", {1, 1, 1, 64, 128, 256}, 64, false},
    {"large, d 80", {1, 2, 2, 128, 256, 80}, 64, false},
};

// What does not fit L1 but L2 is read once and written once.
TEST(Counters, DramMovesWhatTheProblemHoldsAndNoMore) {
  for (const Traffic& each : traffic_cases) {
    SCOPED_TRACE(each.name);
    CoreProblem core{each.name, simple_problem(FMS_F16, each.shape), {}, plan_options(0, 1, each.q_tile)};
    if (each.is_causal) core.problem.window_right = 0;
    AttentionCase one = core.with_data();
    const nlohmann::json report = report_of(core, one);
    const Shape& s = each.shape;
    const double queries = static_cast<double>(s.batch * s.q_heads * s.q_len);
    const double keys = static_cast<double>(s.batch * s.kv_heads * s.kv_len);
    const double d = static_cast<double>(s.head_dim);
    const double read = (queries + 2 * keys) * d * 2, written = queries * (d * 2 + 4);
    const double got_read = metric(report, "vgpu__dram_bytes_read.sum");
    const double got_written =
        metric(report, "vgpu__dram_bytes_written.sum") + metric(report, "vgpu__l2_dirty_bytes_at_end");
    std::cout << "  " << each.name << ": DRAM " << got_read + got_written << " bytes, compulsory " << read + written
              << " (virtual)\n";
    EXPECT_GE(got_read, read);
    EXPECT_GE(got_written, written);
    EXPECT_LE(got_read + got_written, 1.03 * (read + written));
  }
}

}  // namespace
}  // namespace flashmoe::testing
