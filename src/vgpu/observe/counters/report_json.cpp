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
  return json;
}

}  // namespace flashmoe::vgpu::observe
