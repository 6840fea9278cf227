// The source of every row is the description that NVIDIA's libcupti 13.0 gives of the metric
// (cuptiProfilerHostGetMetricProperties); a test has libcupti accept each name for the chips of compute
// capability 8.0 to 12.0. Of bank conflicts: they are the wavefronts beyond the least
// (forums.developer.nvidia.com/t/359822), and with counters of the hardware arbitration conflicts are among them
// (hxf0223.github.io, "Nsight Compute, bank conflict"). No row was seen on a card.
#include "workflow/card/counters_map.hpp"

#include <algorithm>

namespace flashmoe::workflow {
namespace {

constexpr double sector_bytes = 32;
constexpr const char* is_sass = "SASS instructions, not PTX";
constexpr const char* with_other_users =
    "includes arbitration with LDGSTS, TMA and tensor cores, which no layout repairs";
constexpr const char* without_copies =
    "taken to leave out LDGSTS, which has a metric of its own; not checked on a card";

constexpr std::array rows{
    // ---- instructions
    CardMetric{"vgpu__ptx_inst_executed.sum", {"smsp__inst_executed.sum"}, 1, "inst", is_sass},
    CardMetric{"vgpu__ptx_inst_executed.max", {"sm__inst_executed.max"}, 1, "inst", is_sass},
    CardMetric{"vgpu__ptx_thread_inst_executed.sum", {"smsp__thread_inst_executed.sum"}, 1, "inst", is_sass},
    CardMetric{"vgpu__ptx_inst_executed_pipe_fma.sum", {"sm__inst_executed_pipe_fma.sum"}, 1, "inst", is_sass},
    // Ada's older name is marked as deprecated by libcupti.
    CardMetric{"vgpu__ptx_inst_executed_pipe_tensor.sum",
               {"sm__inst_executed_pipe_tensor_v2.sum"},
               1,
               "inst",
               "SASS: one PTX mma may be several HMMA",
               89,
               89},
    CardMetric{"vgpu__ptx_inst_executed_pipe_tensor.sum",
               {"sm__inst_executed_pipe_tensor.sum"},
               1,
               "inst",
               "SASS: one PTX mma may be several HMMA",
               0,
               88},
    CardMetric{"vgpu__ptx_inst_executed_pipe_tensor.sum",
               {"sm__inst_executed_pipe_tensor.sum"},
               1,
               "inst",
               "SASS: one PTX mma may be several HMMA",
               90},
    CardMetric{"vgpu__ptx_divergent_branches.sum",
               {"smsp__sass_branch_targets_threads_divergent.sum"},
               1,
               "branch",
               "branches of the SASS; the compiler predicates short ones away"},
    CardMetric{"vgpu__ptx_branch_efficiency.pct",
               {"smsp__sass_average_branch_targets_threads_uniform.pct"},
               1,
               "%",
               "branches of the SASS; the compiler predicates short ones away"},
    // ---- shared memory
    CardMetric{"vgpu__shared_wavefronts.sum", {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"}, 1, "wavefront"},
    CardMetric{"vgpu__shared_bank_conflicts.sum",
               {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"},
               1,
               "conflict",
               with_other_users},
    CardMetric{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
               {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"},
               1,
               "wavefront"},
    CardMetric{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
               {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"},
               1,
               "wavefront"},
    CardMetric{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
               {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"},
               1,
               "conflict",
               with_other_users},
    CardMetric{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
               {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"},
               1,
               "conflict",
               with_other_users},
    // ---- global memory
    CardMetric{"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
               {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"},
               1,
               "request",
               without_copies},
    CardMetric{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
               {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"},
               1,
               "sector",
               without_copies},
    CardMetric{"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
               {"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"},
               1,
               "request"},
    CardMetric{"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
               {"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"},
               1,
               "sector"},
    CardMetric{"l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
               {"l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"},
               1,
               "request"},
    CardMetric{"l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
               {"l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum"},
               1,
               "sector"},
    CardMetric{"l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
               {"l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"},
               1,
               "request"},
    CardMetric{"l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
               {"l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"},
               1,
               "sector"},
    CardMetric{"vgpu__async_copy_requests_mem_global.sum",
               {"smsp__inst_executed_op_ldgsts.sum"},
               1,
               "request",
               "instructions (LDGSTS), each of which is a request"},
    CardMetric{"vgpu__async_copy_sectors_mem_global.sum",
               {"smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"},
               1,
               "sector"},
    CardMetric{"vgpu__coalescing_efficiency.pct",
               {"smsp__sass_average_data_bytes_per_sector_mem_global.pct"},
               1,
               "%",
               "bytes asked for over bytes of the sectors; the virtual GPU compares whole sectors"},
    // ---- local memory: a thread's words lie beside its neighbours', so that sectors hold nothing else
    CardMetric{"vgpu__local_requests.sum",
               {"l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum"},
               1,
               "request"},
    CardMetric{"vgpu__local_bytes.sum",
               {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"},
               sector_bytes,
               "byte",
               "whole sectors, also of warps with few active threads"},
    // ---- caches and DRAM: measured, where the virtual GPU has a model
    CardMetric{"vgpu__l1_hit_rate.pct", {"l1tex__t_sector_hit_rate.pct"}, 1, "%"},
    CardMetric{"vgpu__l2_hit_rate.pct", {"lts__t_sector_hit_rate.pct"}, 1, "%", "of all clients of L2"},
    CardMetric{"vgpu__l2_bytes_read.sum", {"lts__t_sectors_srcunit_tex_op_read.sum"}, sector_bytes, "byte"},
    CardMetric{"vgpu__l2_bytes_written.sum", {"lts__t_sectors_srcunit_tex_op_write.sum"}, sector_bytes, "byte"},
    // GB202 has no such counter.
    CardMetric{"vgpu__dram_bytes_read.sum", {"dram__bytes_read.sum"}, 1, "byte", "", 0, 119},
    CardMetric{"vgpu__dram_bytes_written.sum", {"dram__bytes_write.sum"}, 1, "byte", "", 0, 119},
    // ---- what only a card has
    CardMetric{
        "sm__cycles_elapsed.max", {"sm__cycles_elapsed.max"}, 1, "cycle", "under replay, at the clock of the run"},
    CardMetric{"gpu__time_duration.sum", {"gpu__time_duration.sum"}, 1, "ns", "under replay, at the clock of the run"},
    CardMetric{"sm__warps_active.avg.pct_of_peak_sustained_active",
               {"sm__warps_active.avg.pct_of_peak_sustained_active"},
               1,
               "%"},
};

constexpr const char* no_cta = "no counter of a card tells one CTA from another";
constexpr const char* other_pipes = "the pipes of SASS are cut differently";
constexpr const char* no_ideal = "a card does not know which sectors would have done";
constexpr const char* in_the_sum = "part of the sums over all accesses to shared memory";
constexpr const char* not_asked = "light: not asked for";

constexpr std::array without{
    Uncounted{"largest_cta_over_mean", no_cta},
    Uncounted{"vgpu__ptx_inst_executed_per_cta.max_over_mean", no_cta},
    Uncounted{"vgpu__working_ctas.sum", no_cta},
    Uncounted{"vgpu__working_sms.sum", "a card says what SMs did together, and the most that one did"},
    Uncounted{"vgpu__working_waves_per_multiprocessor", no_cta},
    Uncounted{"vgpu__ptx_thread_inst_executed_per_inst_executed.ratio", not_asked},
    Uncounted{"vgpu__ptx_inst_executed_pipe_alu.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_fp64.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_half.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_xu.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_lsu.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_uniform.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_control.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_barrier.sum", other_pipes},
    Uncounted{"vgpu__ptx_inst_executed_pipe_async_copy.sum", other_pipes},
    Uncounted{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum", not_asked},
    Uncounted{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_red.sum", in_the_sum},
    Uncounted{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum", not_asked},
    Uncounted{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_red.sum", in_the_sum},
    Uncounted{"vgpu__async_copy_shared_wavefronts.sum", in_the_sum},
    Uncounted{"vgpu__async_copy_shared_bank_conflicts.sum", in_the_sum},
    Uncounted{"vgpu__ideal_sectors_mem_global_op_ld.sum", no_ideal},
    Uncounted{"vgpu__ideal_sectors_mem_global_op_st.sum", no_ideal},
    Uncounted{"vgpu__ideal_sectors_mem_global_op_atom.sum", no_ideal},
    Uncounted{"vgpu__ideal_sectors_mem_global_op_red.sum", no_ideal},
    Uncounted{"vgpu__l2_dirty_bytes_at_end", "a card does not tell what L2 still has to write"},
};

}  // namespace

std::span<const CardMetric> card_metrics() {
  return rows;
}

std::span<const Uncounted> uncounted_on_a_card() {
  return without;
}

std::vector<std::string> wanted_card_metrics(int sm) {
  std::vector<std::string> names;
  for (const CardMetric& row : rows) {
    if (!row.is_for(sm)) continue;
    for (const char* name : row.card)
      if (name != nullptr && std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  }
  return names;
}

CardCounters card_counters(const std::map<std::string, double>& values, int sm) {
  CardCounters counters;
  for (const Uncounted& one : without) counters.missing.emplace(one.counter, one.why);
  for (const CardMetric& row : rows) {
    if (!row.is_for(sm)) {
      counters.missing.emplace(row.counter, "GPUs of this kind have no such counter");
      continue;
    }
    double sum = 0;
    std::string lacks;
    for (const char* name : row.card) {
      if (name == nullptr) continue;
      const auto found = values.find(name);
      if (found == values.end()) lacks = name;
      sum += found == values.end() ? 0 : found->second;
    }
    if (lacks.empty()) {
      counters.counted[row.counter] = {.value = row.factor * sum, .metric = &row};
    } else {
      counters.missing.emplace(row.counter, lacks + " was not counted");
    }
  }
  // A counter may have one row for each kind of GPU.
  for (const auto& [name, counted] : counters.counted) counters.missing.erase(name);
  return counters;
}

}  // namespace flashmoe::workflow
