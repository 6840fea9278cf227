#include "vgpu/observe/counters/report.hpp"

#include <algorithm>
#include <string_view>

#include "vgpu/observe/source_place.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// The four kinds of requests that Nsight Compute keeps apart.
enum class Operation { load, store, atomic, reduction };

Operation operation_of(const ir::InstInfo& info) {
  const std::string_view op = info.form.opcode;
  if (op == "atom") return Operation::atomic;
  if (op == "red") return Operation::reduction;
  if (op == "st" || op == "stmatrix") return Operation::store;
  return Operation::load;
}

bool is_async_copy(const ir::InstInfo& info) {
  return info.form.opcode == "cp";
}

struct Totals {
  std::uint64_t warps = 0, threads = 0;
  std::map<std::string, std::uint64_t> pipes{};
  MemoryCounts load{}, store{}, atomic{}, reduction{}, copy{};

  MemoryCounts& of(const ir::InstInfo& info) {
    if (is_async_copy(info)) return copy;
    switch (operation_of(info)) {
      case Operation::store:
        return store;
      case Operation::atomic:
        return atomic;
      case Operation::reduction:
        return reduction;
      case Operation::load:
        break;
    }
    return load;
  }
};

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void add_instructions(Report& report, const Totals& totals) {
  const auto add = [&](std::string name, double value, const char* unit = "", Trust trust = Trust::exact) {
    report.metrics.push_back({std::move(name), value, unit, trust});
  };
  add("vgpu__ptx_inst_executed.sum", static_cast<double>(totals.warps), "inst");
  add("vgpu__ptx_thread_inst_executed.sum", static_cast<double>(totals.threads), "inst");
  if (totals.warps > 0) {
    add("vgpu__ptx_thread_inst_executed_per_inst_executed.ratio",
        static_cast<double>(totals.threads) / static_cast<double>(totals.warps), "", Trust::derived);
  }
  for (const auto& [pipe, count] : totals.pipes) {
    add("vgpu__ptx_inst_executed_pipe_" + pipe + ".sum", static_cast<double>(count), "inst");
  }
}

void add_memory(Report& report, const Totals& totals, const LaunchCounts& counts) {
  const auto add = [&](const std::string& name, std::uint64_t value, const char* unit, Trust trust = Trust::exact) {
    report.metrics.push_back({name, static_cast<double>(value), unit, trust});
  };
  const std::pair<const char*, const MemoryCounts*> operations[] = {
      {"ld", &totals.load}, {"st", &totals.store}, {"atom", &totals.atomic}, {"red", &totals.reduction}};
  for (const auto& [name, memory] : operations) {
    const std::string op = std::string("_op_") + name + ".sum";
    // Shared atomics are served by replays that no manual describes, wide loads that repeat themselves in fewer passes.
    const bool is_plain = memory == &totals.load || memory == &totals.store;
    const Trust trust = is_plain && memory->shared_repeats == 0 ? Trust::exact : Trust::derived;
    if (memory->shared_requests > 0) {
      add("l1tex__data_pipe_lsu_wavefronts_mem_shared" + op, memory->shared_wavefronts, "wavefront", trust);
      add("l1tex__data_bank_conflicts_pipe_lsu_mem_shared" + op, memory->shared_wavefronts - memory->shared_ideal,
          "conflict", trust);
    }
    if (memory->global_requests > 0) {
      add("l1tex__t_requests_pipe_lsu_mem_global" + op, memory->global_requests, "request");
      add("l1tex__t_sectors_pipe_lsu_mem_global" + op, memory->global_sectors, "sector");
      add("vgpu__ideal_sectors_mem_global" + op, memory->global_ideal_sectors, "sector", Trust::derived);
    }
  }
  if (totals.copy.shared_requests > 0) {
    add("vgpu__async_copy_shared_wavefronts.sum", totals.copy.shared_wavefronts, "wavefront");
    add("vgpu__async_copy_shared_bank_conflicts.sum", totals.copy.shared_wavefronts - totals.copy.shared_ideal,
        "conflict");
    add("vgpu__async_copy_requests_mem_global.sum", totals.copy.global_requests, "request");
    add("vgpu__async_copy_sectors_mem_global.sum", totals.copy.global_sectors, "sector");
  }
  MemoryCounts all = totals.load;
  all += totals.store;
  all += totals.atomic;
  all += totals.reduction;
  all += totals.copy;
  if (all.shared_requests > 0) {
    add("vgpu__shared_wavefronts.sum", all.shared_wavefronts, "wavefront");
    add("vgpu__shared_bank_conflicts.sum", all.shared_wavefronts - all.shared_ideal, "conflict");
  }
  if (all.global_sectors > 0) {
    report.metrics.push_back({"vgpu__coalescing_efficiency.pct", percent(all.global_ideal_sectors, all.global_sectors),
                              "%", Trust::derived});
  }
  if (all.local_requests > 0) {
    add("vgpu__local_requests.sum", all.local_requests, "request");
    add("vgpu__local_bytes.sum", all.local_bytes, "byte");
  }
  const MemoryTraffic& traffic = counts.traffic;
  if (traffic.l1_sectors > 0) {
    report.metrics.push_back(
        {"vgpu__l1_hit_rate.pct", percent(traffic.l1_hits, traffic.l1_sectors), "%", Trust::modelled});
  }
  const std::uint64_t l2 = traffic.l2_sectors_read + traffic.l2_sectors_written;
  if (l2 > 0) report.metrics.push_back({"vgpu__l2_hit_rate.pct", percent(traffic.l2_hits, l2), "%", Trust::modelled});
  add("vgpu__l2_bytes_read.sum", traffic.l2_sectors_read * sector_bytes, "byte", Trust::modelled);
  add("vgpu__l2_bytes_written.sum", traffic.l2_sectors_written * sector_bytes, "byte", Trust::modelled);
  add("vgpu__dram_bytes_read.sum", traffic.dram_sectors_read * sector_bytes, "byte", Trust::modelled);
  add("vgpu__dram_bytes_written.sum", traffic.dram_sectors_written * sector_bytes, "byte", Trust::modelled);
  add("vgpu__l2_dirty_bytes_at_end", traffic.dirty_at_end * sector_bytes, "byte", Trust::modelled);
}

void add_launch(Report& report, const LaunchCounts& counts) {
  const auto add = [&](const char* name, double value, const char* unit = "", Trust trust = Trust::exact) {
    report.metrics.push_back({name, value, unit, trust});
  };
  const Occupancy& held = report.fit.held;
  add("launch__grid_size", static_cast<double>(counts.grid.count()), "block");
  add("launch__block_size", static_cast<double>(counts.block.count()), "thread");
  add("launch__shared_mem_per_block", counts.shared_bytes, "byte");
  add("device__attribute_multiprocessor_count", report.machine.sms);
  add("vgpu__working_ctas.sum", static_cast<double>(report.work.working_ctas), "block", Trust::derived);
  add("vgpu__working_sms.sum", report.work.working_sms, "", Trust::derived);
  add("vgpu__ptx_inst_executed.max", static_cast<double>(report.work.busiest_sm), "inst", Trust::derived);
  add("vgpu__ptx_inst_executed_per_cta.max_over_mean", report.work.largest_over_mean, "", Trust::derived);
  add("launch__occupancy_limit_warps", held.by(SmLimit::warps), "block", Trust::derived);
  add("launch__occupancy_limit_blocks", held.by(SmLimit::ctas), "block", Trust::derived);
  add("launch__occupancy_limit_shared_mem", held.by(SmLimit::shared_memory), "block", Trust::derived);
  if (held.by(SmLimit::barriers) != Occupancy::no_limit)
    add("launch__occupancy_limit_barriers", held.by(SmLimit::barriers), "block", Trust::derived);
  if (report.image.registers_per_thread) {
    add("launch__registers_per_thread", *report.image.registers_per_thread, "register");
    add("launch__occupancy_limit_registers", held.by(SmLimit::registers), "block", Trust::derived);
    add("launch__waves_per_multiprocessor", report.fit.waves, "", Trust::derived);
    add("vgpu__working_waves_per_multiprocessor", report.working_waves(), "", Trust::derived);
    add("sm__maximum_warps_per_active_cycle_pct", 100 * held.share_of_warps, "%", Trust::derived);
  } else {
    // Without registers both are bounds, and a bound must not carry the metric's name.
    add("vgpu__least_waves_per_multiprocessor", report.fit.waves, "", Trust::derived);
    add("vgpu__least_working_waves_per_multiprocessor", report.working_waves(), "", Trust::derived);
    add("vgpu__most_occupancy.pct", 100 * held.share_of_warps, "%", Trust::derived);
  }
}

// Those of the launch itself, up to `counted`, are what they are. What a cache holds and which CTA or SM has most to do
// cannot be scaled.
void label_sampled(Report& report, std::size_t counted) {
  std::vector<Metric> kept;
  for (std::size_t i = 0; i < report.metrics.size(); ++i) {
    Metric& metric = report.metrics[i];
    const bool is_of_ctas = metric.name.starts_with("vgpu__working") || metric.name.starts_with("vgpu__least_working");
    const bool needs_all = metric.trust == Trust::modelled || metric.name == "vgpu__working_sms.sum" ||
                           metric.name == "vgpu__ptx_inst_executed.max" ||
                           metric.name == "vgpu__ptx_inst_executed_per_cta.max_over_mean";
    if (needs_all) {
      report.not_sampled.push_back(std::move(metric.name));
      continue;
    }
    if (i >= counted || is_of_ctas) metric.trust = Trust::sampled;
    kept.push_back(std::move(metric));
  }
  report.metrics = std::move(kept);
}

}  // namespace

std::string_view name_of(Trust trust) {
  switch (trust) {
    case Trust::exact:
      return "exact";
    case Trust::derived:
      return "derived";
    case Trust::modelled:
      return "modelled";
    case Trust::sampled:
      return "sampled";
  }
  return "?";
}

const Metric* Report::find(std::string_view name) const {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const Metric& metric) { return metric.name == name; });
  return found == metrics.end() ? nullptr : &*found;
}

Report make_report(const ir::Kernel& kernel, const LaunchCounts& counts, const MachineShape& machine,
                   const ImageFacts& image) {
  Report report;
  report.kernel = kernel.name;
  report.machine = machine;
  report.image = image;
  report.grid = counts.grid;
  report.block = counts.block;
  report.fit = launch_fit(machine, image, counts.grid, counts.block, counts.shared_bytes);
  report.work = counts.work;
  report.paths = counts.paths;
  report.sample = counts.sample;
  report.sampled_over_executed = counts.sampled_over_executed;

  Totals totals;
  std::map<std::pair<std::string, int>, LineCounts> lines;
  std::uint64_t branches = 0, divergent = 0;
  for (std::uint32_t pc = 0; pc < kernel.info.size() && pc < counts.instructions.size(); ++pc) {
    const ir::InstInfo& info = kernel.info[pc];
    const InstructionCounts& executed = counts.instructions[pc];
    if (info.is_pseudo || executed.warps == 0) continue;
    const std::string pipe(ir::name_of(info.pipe));
    totals.warps += executed.warps;
    totals.threads += executed.threads;
    totals.pipes[pipe] += executed.warps;
    totals.of(info) += counts.memory[pc];

    const SourcePlace place = source_place(kernel, info);
    LineCounts& line = lines[{place.file, place.line}];
    line.file = place.file;
    line.line = place.line;
    line.ptx_instructions += executed.warps;
    line.threads += executed.threads;
    line.pipes[pipe] += executed.warps;
    line.memory += counts.memory[pc];
    if (info.form.opcode == "bra" && info.form.has("uni") == false && kernel.code[pc].guard != 0) {
      const auto parted = counts.divergent_branches.find(pc);
      const std::uint64_t times = parted == counts.divergent_branches.end() ? 0 : parted->second;
      line.branches += executed.warps;
      line.divergent_branches += times;
      branches += executed.warps;
      divergent += times;
    }
    report.ptx.push_back({pc, info.at.line, info.text, place.file, place.line, pipe, executed, counts.memory[pc]});
  }
  for (auto& [place, line] : lines) report.lines.push_back(std::move(line));
  for (const auto& [edge, edge_counts] : counts.edges) {
    const auto [from, to] = edge;
    const int to_line = to < kernel.info.size() ? kernel.info[to].at.line : 0;
    report.edges.push_back({kernel.info[from].at.line, to_line, from, to, kernel.code[from].target == to, edge_counts});
  }

  add_launch(report, counts);
  const std::size_t of_launch = report.metrics.size();
  add_instructions(report, totals);
  if (branches > 0) {
    report.metrics.push_back(
        {"vgpu__ptx_branch_efficiency.pct", percent(branches - divergent, branches), "%", Trust::derived});
    report.metrics.push_back(
        {"vgpu__ptx_divergent_branches.sum", static_cast<double>(divergent), "branch", Trust::exact});
  }
  add_memory(report, totals, counts);
  if (report.sample) label_sampled(report, of_launch);
  return report;
}

}  // namespace flashmoe::vgpu::observe
