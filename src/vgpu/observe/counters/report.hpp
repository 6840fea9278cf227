// What a launch did, for people and for programs. Each metric says how it came about:
//   exact     counted while the PTX ran
//   derived   arithmetic on exact counts and documented limits
//   modelled  depends on the cache model (cache.hpp)
//   sampled   counted in some CTAs and scaled, or arithmetic on such counts (sample.hpp)
// Metrics carry a name of Nsight Compute only where they mean the same; counts of PTX instructions never do, because a
// device counts SASS.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vgpu/ir/kernel.hpp"
#include "vgpu/observe/counters/counters.hpp"
#include "vgpu/observe/counters/machine_shape.hpp"

namespace flashmoe::vgpu::observe {

enum class Trust : std::uint8_t { exact, derived, modelled, sampled };
[[nodiscard]] std::string_view name_of(Trust trust);

struct Metric {
  std::string name{};
  double value = 0;
  std::string unit{};  // "", "byte", "%", ...
  Trust trust = Trust::exact;
};

struct LineCounts {
  std::string file{};
  int line = 0;
  std::uint64_t ptx_instructions = 0;  // warp executions
  std::uint64_t threads = 0;           // thread executions
  std::map<std::string, std::uint64_t> pipes{};
  MemoryCounts memory{};
  std::uint64_t branches = 0, divergent_branches = 0;
};

struct PtxLineCounts {
  std::uint32_t pc = 0;
  int ptx_line = 0;
  std::string text{};
  std::string file{};
  int line = 0;
  std::string pipe{};
  InstructionCounts counts{};
  MemoryCounts memory{};
};

struct EdgeRow {
  int from_ptx_line = 0, to_ptx_line = 0;
  std::uint32_t from = 0, to = 0;  // pcs
  bool is_taken = false;           // false: falls through
  EdgeCounts counts{};
};

struct Report {
  std::string kernel{};
  MachineShape machine{};
  ImageFacts image{};
  exec::Dim3 grid{}, block{};
  LaunchFit fit{};
  WorkSpread work{};
  std::vector<Metric> metrics{};
  std::vector<std::string> not_sampled{};  // metrics that need every CTA, where some were counted
  std::vector<LineCounts> lines{};         // by file and line
  std::vector<PtxLineCounts> ptx{};        // by pc, executed ones
  std::vector<EdgeRow> edges{};
  std::optional<LaunchPaths> paths{};
  std::optional<CtaSample> sample{};
  double sampled_over_executed = 1;

  [[nodiscard]] double working_waves() const { return fit.waves_of(work.working_ctas); }
  [[nodiscard]] const Metric* find(std::string_view name) const;
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

[[nodiscard]] Report make_report(const ir::Kernel& kernel, const LaunchCounts& counts, const MachineShape& machine,
                                 const ImageFacts& image);

// "64 of 4096 CTAs, seed 1"; of a report with a sample.
[[nodiscard]] std::string sample_text(const Report& report);
// The source with counts beside each line. `source` is the text of `file` as the kernel names it.
[[nodiscard]] std::string annotated_source(const Report& report, const std::string& file, std::string_view source);
// The launch in a dozen lines.
[[nodiscard]] std::string summary(const Report& report);

}  // namespace flashmoe::vgpu::observe
