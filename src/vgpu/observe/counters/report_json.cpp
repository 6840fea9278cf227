#include <nlohmann/json.hpp>

#include "vgpu/ir/readable_name.hpp"
#include "vgpu/observe/counters/report.hpp"

namespace flashmoe::vgpu::observe {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const exec::Dim3& size) {
  return {size.x, size.y, size.z};
}

// Only what happened: a line that never touches memory says nothing about it.
void add_memory(Json& json, const MemoryCounts& memory) {
  if (memory.shared_requests > 0) {
    json["shared_requests"] = memory.shared_requests;
    json["shared_wavefronts"] = memory.shared_wavefronts;
    json["shared_wavefronts_ideal"] = memory.shared_ideal;
    json["shared_bank_conflicts"] = memory.shared_wavefronts - memory.shared_ideal;
  }
  if (memory.global_requests > 0) {
    json["global_requests"] = memory.global_requests;
    json["global_sectors"] = memory.global_sectors;
    json["global_sectors_ideal"] = memory.global_ideal_sectors;
    json["global_lines"] = memory.global_lines;
  }
  if (memory.local_requests > 0) {
    json["local_requests"] = memory.local_requests;
    json["local_bytes"] = memory.local_bytes;
  }
}

// Integers as integers: 12, not 12.0.
Json number(double value) {
  if (value == static_cast<double>(static_cast<std::int64_t>(value))) return static_cast<std::int64_t>(value);
  return value;
}

// 63 times taken, then once not: "t63n". b: lanes went both ways.
std::string outcome_text(const std::vector<OutcomeRun>& runs) {
  std::string text;
  for (const OutcomeRun& run : runs) {
    text += run.outcome == BranchOutcome::taken ? 't' : run.outcome == BranchOutcome::both ? 'b' : 'n';
    if (run.times > 1) text += std::to_string(run.times);
  }
  return text;
}

Json to_json(const WarpPath& path) {
  Json branches = Json::array(), stretches = Json::array();
  for (const auto& [pc, runs] : path.branches) branches.push_back({{"pc", pc}, {"outcomes", outcome_text(runs)}});
  for (const Stretch& one : path.stretches) stretches.push_back({one.from, one.to, one.times});
  return {{"branches", std::move(branches)}, {"stretches", std::move(stretches)}};
}

// Neighbours in the grid that did the same are one row: how many, then what each did.
Json to_json(const LaunchPaths& paths) {
  Json rows = Json::array();
  for (std::size_t i = 0, next = 0; i < paths.totals.size(); i = next) {
    while (next < paths.totals.size() && paths.totals[next] == paths.totals[i]) ++next;
    rows.push_back({next - i, paths.totals[i].instructions, paths.totals[i].mma, paths.totals[i].global_bytes});
  }
  Json ctas = Json::array();
  for (const CtaPath& cta : paths.ctas) {
    Json warps = Json::array();
    for (const WarpPath& warp : cta.warps) warps.push_back(to_json(warp));
    ctas.push_back({{"cta", cta.linear}, {"inst_executed", cta.instructions}, {"warps", std::move(warps)}});
  }
  return {{"totals_by_cta", std::move(rows)}, {"median_is_exact", paths.median_is_exact}, {"ctas", std::move(ctas)}};
}

// How far off the sums may be, in percent of them: one standard error, where anything was counted.
Json to_json(const CtaSample& sample, double over_executed) {
  const std::pair<const char*, std::uint64_t CtaCounts::*> quantities[] = {
      {"ptx_inst_executed", &CtaCounts::instructions},
      {"ptx_thread_inst_executed", &CtaCounts::thread_instructions},
      {"shared_wavefronts", &CtaCounts::shared_wavefronts},
      {"shared_bank_conflicts", &CtaCounts::shared_bank_conflicts},
      {"global_requests", &CtaCounts::global_requests},
      {"global_sectors", &CtaCounts::global_sectors},
      {"local_bytes", &CtaCounts::local_bytes}};
  Json errors = Json::object();
  for (const auto& [name, of] : quantities)
    if (sample.sum(of) > 0) errors[name] = sample.standard_error_percent(of);
  return {{"ctas", sample.chosen().size()},
          {"of", sample.ctas()},
          {"seed", sample.seed()},
          {"standard_error_percent", std::move(errors)},
          {"sampled_over_executed", over_executed}};
}

}  // namespace

nlohmann::ordered_json Report::to_json() const {
  Json json = {{"kernel", kernel},
               {"name", ir::readable_name(kernel)},
               {"device", machine.name},
               {"grid", observe::to_json(grid)},
               {"block", observe::to_json(block)},
               {"registers", image.registers_per_thread ? Json(*image.registers_per_thread) : Json("unknown")},
               {"spill_store_bytes", image.spill_store_bytes ? Json(*image.spill_store_bytes) : Json("unknown")},
               {"spill_load_bytes", image.spill_load_bytes ? Json(*image.spill_load_bytes) : Json("unknown")},
               {"registers_from", image.source},
               {"sms", machine.sms},
               {"waves", working_waves()},
               {"waves_of_grid", fit.waves},
               {"working_ctas", work.working_ctas},
               {"working_sms", work.working_sms},
               {"largest_cta_over_mean", work.largest_over_mean},
               {"ctas_per_sm", fit.held.ctas_per_sm},
               {"occupancy_percent", 100 * fit.held.share_of_warps},
               {"occupancy_limiter", std::string(name_of(fit.held.limited_by)) +
                                         (image.registers_per_thread ? "" : " (registers unknown)")}};
  if (sample) {
    json["sample"] = observe::to_json(*sample, sampled_over_executed);
    Json missing = Json::array();
    const auto leave_out = [&](const std::string& name) {
      missing.push_back({{"name", name}, {"why", "not sampled: needs every CTA"}});
      json.erase(name);
    };
    for (const std::string& name : not_sampled) leave_out(name);
    for (const char* const field : {"working_sms", "largest_cta_over_mean"}) leave_out(field);
    json["missing"] = std::move(missing);
  }
  Json& metric_list = json["metrics"] = Json::array();
  for (const Metric& metric : metrics) {
    metric_list.push_back({{"name", metric.name},
                           {"value", number(metric.value)},
                           {"unit", metric.unit},
                           {"trust", name_of(metric.trust)}});
  }
  Json& source_lines = json["source_lines"] = Json::array();
  for (const LineCounts& line : lines) {
    Json row = {{"file", line.file},
                {"line", line.line},
                {"ptx_inst_executed", line.ptx_instructions},
                {"ptx_thread_inst_executed", line.threads},
                {"pipes", line.pipes}};
    if (line.branches > 0) {
      row["branches"] = line.branches;
      row["divergent_branches"] = line.divergent_branches;
    }
    add_memory(row, line.memory);
    source_lines.push_back(std::move(row));
  }
  Json& ptx_lines = json["ptx_lines"] = Json::array();
  for (const PtxLineCounts& row : ptx) {
    Json out = {{"pc", row.pc}, {"ptx_line", row.ptx_line}, {"text", row.text}};
    if (row.line > 0) {
      out["file"] = row.file;
      out["line"] = row.line;
    }
    out["pipe"] = row.pipe;
    out["inst_executed"] = row.counts.warps;
    out["thread_inst_executed"] = row.counts.threads;
    add_memory(out, row.memory);
    ptx_lines.push_back(std::move(out));
  }
  Json& edge_list = json["edges"] = Json::array();
  for (const EdgeRow& edge : edges) {
    edge_list.push_back({{"from_pc", edge.from},
                         {"to_pc", edge.to},
                         {"from_ptx_line", edge.from_ptx_line},
                         {"to_ptx_line", edge.to_ptx_line},
                         {"taken", edge.is_taken},
                         {"warps", edge.counts.warps},
                         {"threads", edge.counts.threads}});
  }
  if (paths) json["paths"] = observe::to_json(*paths);
  return json;
}

}  // namespace flashmoe::vgpu::observe
