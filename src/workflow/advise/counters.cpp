#include "workflow/advise/counters.hpp"

#include <algorithm>
#include <array>

namespace flashmoe::workflow {
namespace {

double metric(const LaunchReport& launch, const char* name, double missing = 0) {
  const auto found = launch.metrics.find(name);
  return found != launch.metrics.end() ? found->second : missing;
}

using Metrics = std::array<const char*, 3>;
constexpr Metrics request_metrics{"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
                                  "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
                                  "vgpu__async_copy_requests_mem_global.sum"};
constexpr Metrics sector_metrics{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                                 "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
                                 "vgpu__async_copy_sectors_mem_global.sum"};

constexpr CounterName::Reads all_metrics(const Metrics& a, const Metrics& b = {}) {
  return {a[0], a[1], a[2], b[0], b[1], b[2]};
}

double sum(const LaunchReport& launch, const Metrics& metrics) {
  double total = 0;
  for (const char* name : metrics) total += metric(launch, name);
  return total;
}

using Launch = LaunchReport;
constexpr std::array names{
    CounterName{"sms", "SMs of the GPU", {"sms"}, [](const Launch& l) { return l.sms; }},
    CounterName{"ctas", "CTAs of the grid", {"grid"}, [](const Launch& l) { return static_cast<double>(l.ctas()); }},
    CounterName{"working_ctas", "CTAs that did work", {"working_ctas"}, [](const Launch& l) { return l.working_ctas; }},
    CounterName{"working_sms", "SMs that did work", {"working_sms"}, [](const Launch& l) { return l.working_sms; }},
    CounterName{"waves", "waves of CTAs that did work", {"waves"}, [](const Launch& l) { return l.waves; }},
    CounterName{"waves_of_grid",
                "waves of all CTAs, whatever they do",
                {"waves_of_grid"},
                [](const Launch& l) { return l.waves_of_grid; }},
    CounterName{"largest_cta_over_mean",
                "instructions of the largest CTA over the mean",
                {"largest_cta_over_mean"},
                [](const Launch& l) { return l.largest_cta_over_mean; }},
    CounterName{"occupancy",
                "per cent of the warps an SM can hold",
                {"occupancy_percent"},
                [](const Launch& l) { return l.occupancy_percent; }},
    CounterName{"ctas_per_sm", "CTAs that an SM holds", {"ctas_per_sm"}, [](const Launch& l) { return l.ctas_per_sm; }},
    CounterName{"instructions", "PTX instructions executed by warps", {"vgpu__ptx_inst_executed.sum"}},
    CounterName{"busiest_sm_instructions",
                "of these, on the SM with most, CTAs dealt out in turn",
                {"vgpu__ptx_inst_executed.max"}},
    CounterName{"fma_instructions",
                "of these, scalar multiply-adds and their like (pipe fma)",
                {"vgpu__ptx_inst_executed_pipe_fma.sum"}},
    CounterName{
        "tensor_instructions", "of these, matrix products (pipe tensor)", {"vgpu__ptx_inst_executed_pipe_tensor.sum"}},
    CounterName{"shared_wavefronts", "passes over the banks of shared memory", {"vgpu__shared_wavefronts.sum"}},
    CounterName{"bank_conflicts", "of these, caused by conflicts", {"vgpu__shared_bank_conflicts.sum"}},
    CounterName{"shared_stores",
                "wavefronts of stores into shared memory",
                {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"}},
    CounterName{"async_copies", "requests of cp.async", {"vgpu__async_copy_requests_mem_global.sum"}},
    CounterName{"global_requests", "requests to global memory by warps", all_metrics(request_metrics)},
    CounterName{"global_sectors", "sectors of 32 bytes that these touch", all_metrics(sector_metrics)},
    CounterName{"sectors_per_request", "the ratio of the two", all_metrics(sector_metrics, request_metrics),
                [](const Launch& l) { return sum(l, sector_metrics) / std::max(sum(l, request_metrics), 1.0); }},
    CounterName{"coalescing",
                "per cent of the sectors that would be needed",
                {"vgpu__coalescing_efficiency.pct"},
                [](const Launch& l) { return metric(l, "vgpu__coalescing_efficiency.pct", 100); }},
    CounterName{"local_bytes", "bytes of spills and local arrays", {"vgpu__local_bytes.sum"}},
    CounterName{"dram_bytes", "bytes read from DRAM (modelled)", {"vgpu__dram_bytes_read.sum"}},
    CounterName{"divergent_branches", "branches that split a warp", {"vgpu__ptx_divergent_branches.sum"}},
    CounterName{"registers", "registers a thread (0: unknown)", {"launch__registers_per_thread"}},
};

}  // namespace

bool CounterName::is_known(const LaunchReport& launch) const {
  return std::none_of(reads.begin(), reads.end(),
                      [&](const char* read) { return read != nullptr && launch.missing.contains(read); });
}

double CounterName::value(const LaunchReport& launch) const {
  if (of != nullptr) return of(launch);
  double total = 0;
  for (const char* read : reads) total += read != nullptr ? metric(launch, read) : 0;
  return total;
}

std::span<const CounterName> counter_names() {
  return names;
}

const CounterName* find_counter_name(const std::string& name) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const CounterName& counter) { return name == counter.name; });
  return found == names.end() ? nullptr : &*found;
}

Values counters_of(const LaunchReport& launch) {
  Values values;
  for (const CounterName& counter : names)
    if (counter.is_known(launch)) values[counter.name] = counter.value(launch);
  return values;
}

Values weightiest_counters(const ProfileRun& run) {
  const auto weightiest = std::max_element(run.launches.begin(), run.launches.end(),
                                           [](const auto& a, const auto& b) { return a.share < b.share; });
  return weightiest == run.launches.end() ? Values{} : counters_of(weightiest->report);
}

double counter_of(const ProfileRun& run, const std::string& name) {
  const Values counters = weightiest_counters(run);
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

}  // namespace flashmoe::workflow
