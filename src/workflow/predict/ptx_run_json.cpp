#include "workflow/predict/ptx_run_json.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"

namespace flashmoe::workflow {
namespace {

using predict::Outcome;
using predict::OutcomeRun;

std::uint64_t count_in(const Json& json, const char* key) {
  return static_cast<std::uint64_t>(std::max(0.0, number_in(json, key)));
}

std::uint64_t count_at(const Json& row, std::size_t index) {
  return row.is_array() && index < row.size() && row[index].is_number_unsigned() ? row[index].get<std::uint64_t>() : 0;
}

// "t63n": 63 times taken, then once not. Nothing: not such a text.
std::optional<std::vector<OutcomeRun>> outcomes_from(std::string_view text) {
  std::vector<OutcomeRun> runs;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    OutcomeRun run;
    if (*at == 't')
      run.outcome = Outcome::taken;
    else if (*at == 'b')
      run.outcome = Outcome::both;
    else if (*at != 'n')
      return std::nullopt;
    ++at;
    if (at != end && *at >= '0' && *at <= '9') {
      const auto [behind, error] = std::from_chars(at, end, run.times);
      if (error != std::errc{} || run.times == 0) return std::nullopt;
      at = behind;
    }
    runs.push_back(run);
  }
  return runs;
}

constexpr std::size_t most_ctas = std::size_t{1} << 24U;

using LinesByPc = std::map<std::uint64_t, std::uint32_t>;

std::optional<predict::PtxWarp> warp_from(const Json& json, const LinesByPc& line_of) {
  predict::PtxWarp warp;
  for (const Json& branch : list_in(json, "branches")) {
    const auto line = line_of.find(count_in(branch, "pc"));
    auto runs = outcomes_from(text_in(branch, "outcomes"));
    if (line == line_of.end() || !runs) return std::nullopt;
    warp.branches[line->second] = std::move(*runs);
  }
  std::map<std::uint64_t, std::uint64_t> by_pc;
  for (const Json& stretch : list_in(json, "stretches")) {
    const std::uint64_t from = count_at(stretch, 0), to = count_at(stretch, 1), times = count_at(stretch, 2);
    for (auto pc = line_of.lower_bound(from); pc != line_of.end() && pc->first <= to; ++pc) by_pc[pc->first] += times;
  }
  // A line of several instructions ran as often as the one that ran most.
  for (const auto& [pc, times] : by_pc) {
    std::uint64_t& most = warp.executed[line_of.at(pc)];
    most = std::max(most, times);
  }
  return warp;
}

}  // namespace

Result<predict::PtxRun> ptx_run_from(const std::string& json) {
  const Json report = parse_json(json);
  const Json* const paths = report.is_object() ? field_in(report, "paths") : nullptr;
  const Diagnostic unread{.message = "the virtual GPU's report of a launch has no paths that can be read",
                          .fix = "use the virtual GPU of this very version, with VGPU_PATHS=1"};
  if (paths == nullptr) return unread;
  predict::PtxRun run{.kernel = text_in(report, "kernel")};
  LinesByPc line_of;
  for (const Json& row : list_in(report, "ptx_lines")) {
    const auto number = static_cast<std::uint32_t>(count_in(row, "ptx_line"));
    line_of[count_in(row, "pc")] = number;
    predict::PtxLine& line = run.lines[number];
    line.executed = std::max(line.executed, count_in(row, "inst_executed"));
    line.shared_requests += count_in(row, "shared_requests");
    line.shared_wavefronts += count_in(row, "shared_wavefronts");
    line.global_requests += count_in(row, "global_requests");
    line.global_sectors += count_in(row, "global_sectors");
    line.global_lines += count_in(row, "global_lines");
    line.file = text_in(row, "file");
    line.source_line = integer_in(row, "line");
  }
  for (const Json& row : list_in(*paths, "totals_by_cta")) {
    const predict::CtaTotals each{count_at(row, 1), count_at(row, 2), count_at(row, 3)};
    if (count_at(row, 0) > most_ctas - run.totals.size()) return unread;  // the file is the kernel's process's
    run.totals.insert(run.totals.end(), count_at(row, 0), each);
  }
  for (const Json& cta : list_in(*paths, "ctas")) {
    predict::PtxCta& one = run.ctas.emplace_back();
    one.place = count_in(cta, "cta");
    for (const Json& json_of_warp : list_in(cta, "warps")) {
      auto warp = warp_from(json_of_warp, line_of);
      if (!warp) return unread;
      one.warps.push_back(std::move(*warp));
    }
  }
  return run;
}

}  // namespace flashmoe::workflow
