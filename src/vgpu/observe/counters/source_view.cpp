// The views that people read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "vgpu/ir/readable_name.hpp"
#include "vgpu/observe/counters/report.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// 1234567 -> "1.23M": five characters at most.
std::string brief(std::uint64_t value) {
  constexpr const char* units[] = {"", "k", "M", "G", "T"};
  double shown = static_cast<double>(value);
  std::size_t unit = 0;
  while (shown >= 999.5 && unit + 1 < std::size(units)) {
    shown /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{}", value);
  const int decimals = shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", shown, decimals, units[unit]);
}

// A tenth of the launch's instructions is one full block; the eye finds the hot lines first.
std::string bar(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0 || part == 0) return "";
  const auto eighths = static_cast<int>(std::lround(80.0 * static_cast<double>(part) / static_cast<double>(whole)));
  constexpr const char* partial[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string text;
  for (int i = 0; i < std::min(eighths / 8, 5); ++i) text += "█";
  if (eighths / 8 < 5) text += partial[std::max(eighths, 1) % 8];
  return text;
}

std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t shown = shown_width(text);
  if (shown < width) text.append(width - shown, ' ');
  return text;
}

std::string times(std::uint64_t real, std::uint64_t ideal) {
  if (ideal == 0) return "";
  return fmt::format("{:.1f}x", static_cast<double>(real) / static_cast<double>(ideal));
}

std::string remarks(const LineCounts& line) {
  std::vector<std::string> parts;
  const MemoryCounts& memory = line.memory;
  if (memory.shared_wavefronts > memory.shared_ideal) {
    parts.push_back(fmt::format("{} bank conflicts ({} the wavefronts)",
                                brief(memory.shared_wavefronts - memory.shared_ideal),
                                times(memory.shared_wavefronts, memory.shared_ideal)));
  }
  if (memory.global_sectors > memory.global_ideal_sectors) {
    parts.push_back(fmt::format("{} the sectors", times(memory.global_sectors, memory.global_ideal_sectors)));
  }
  if (line.divergent_branches > 0) parts.push_back(fmt::format("{} divergent", brief(line.divergent_branches)));
  if (memory.local_bytes > 0) parts.push_back(fmt::format("{}B local", brief(memory.local_bytes)));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "◀ " : ", ") + part;
  return text;
}

}  // namespace

std::string sample_text(const Report& report) {
  const CtaSample& sample = *report.sample;
  return fmt::format("{} of {} CTAs, seed {}", sample.chosen().size(), sample.ctas(), sample.seed());
}

std::string annotated_source(const Report& report, const std::string& file, std::string_view source) {
  std::map<int, const LineCounts*> counts;
  std::uint64_t total = 0;
  for (const LineCounts& line : report.lines) {
    total += line.ptx_instructions;
    if (line.file == file) counts[line.line] = &line;
  }
  constexpr std::size_t bar_width = 6;
  std::string text = fmt::format("{}: {}{}\n", ir::readable_name(report.kernel), file,
                                 report.sample ? fmt::format(" (sampled: {}, scaled)", sample_text(report)) : "");
  text += fmt::format("{:>7} {:>5} {:>6} {:>6} {:{}} {:>5}  source\n", "warps", "lanes", "shared", "sector", "",
                      bar_width, "line");
  int number = 0;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view content = source.substr(at, end - at);
    at = end + 1;
    ++number;
    const auto found = counts.find(number);
    if (found == counts.end()) {
      text += fmt::format("{:>7} {:>5} {:>6} {:>6} {:{}} {:>5}  {}\n", "", "", "", "", "", bar_width, number, content);
      continue;
    }
    const LineCounts& line = *found->second;
    const double lanes = static_cast<double>(line.threads) / static_cast<double>(line.ptx_instructions);
    const std::string shared = line.memory.shared_requests > 0 ? brief(line.memory.shared_wavefronts) : "";
    const std::string sectors = line.memory.global_requests > 0 ? brief(line.memory.global_sectors) : "";
    const std::string remark = remarks(line);
    text += fmt::format("{:>7} {:>5.1f} {:>6} {:>6} {} {:>5}  {}{}{}\n", brief(line.ptx_instructions), lanes, shared,
                        sectors, padded(bar(line.ptx_instructions, total), bar_width), number, content,
                        remark.empty() ? "" : "  ", remark);
  }
  text +=
      "warps: PTX instructions executed by warps; lanes: active ones of 32; shared: wavefronts; sector: of 32 bytes\n";
  return text;
}

std::string summary(const Report& report) {
  const auto value = [&](std::string_view name) {
    const Metric* const metric = report.find(name);
    return metric == nullptr ? 0.0 : metric->value;
  };
  const auto whole = [&](std::string_view name) { return brief(static_cast<std::uint64_t>(value(name))); };
  const Occupancy& held = report.fit.held;
  const bool known = report.image.registers_per_thread.has_value();
  std::string text = fmt::format("{} on {} (virtual)\n", ir::readable_name(report.kernel), report.machine.name);
  const WorkSpread& work = report.work;
  text += fmt::format("  grid        {} CTAs of {} threads on {} SMs: {}{:.3f} waves{}\n", report.grid.count(),
                      report.block.count(), report.machine.sms, known ? "" : "at least ", report.working_waves(),
                      work.working_ctas == report.grid.count() ? "" : " of CTAs that did work");
  if (report.sample) {
    const CtaSample& sample = *report.sample;
    text += fmt::format("  sampled     {}, scaled; standard error of instructions {:.2f} %, of sectors {:.2f} %\n",
                        sample_text(report), sample.standard_error_percent(&CtaCounts::instructions),
                        sample.standard_error_percent(&CtaCounts::global_sectors));
    text += fmt::format("              it comes to {:.2f} % of the instructions that all CTAs executed\n",
                        100 * report.sampled_over_executed);
  } else {
    text += fmt::format("  work        {} CTAs on {} SMs did some; the largest CTA executed {:.1f}x the mean\n",
                        work.working_ctas, work.working_sms, work.largest_over_mean);
  }
  text += fmt::format("  occupancy   {}{:.0f} %, {} CTAs an SM, limited by {}{}\n", known ? "" : "at most ",
                      100 * held.share_of_warps, held.ctas_per_sm, name_of(held.limited_by),
                      known ? "" : "; registers unknown");
  text += fmt::format("  executed    {} PTX instructions by warps, {:.1f} of 32 lanes active\n",
                      whole("vgpu__ptx_inst_executed.sum"),
                      value("vgpu__ptx_thread_inst_executed_per_inst_executed.ratio"));
  if (report.find("vgpu__shared_wavefronts.sum") != nullptr) {
    text += fmt::format("  shared      {} wavefronts, {} of them bank conflicts\n",
                        whole("vgpu__shared_wavefronts.sum"), whole("vgpu__shared_bank_conflicts.sum"));
  }
  if (report.find("vgpu__coalescing_efficiency.pct") != nullptr) {
    text += fmt::format("  global      {:.0f} % of the sectors' bytes are asked for\n",
                        value("vgpu__coalescing_efficiency.pct"));
  }
  if (report.sample) {
    text += "  DRAM        not sampled: needs every CTA\n";
  } else {
    text += fmt::format("  DRAM        {}B read, {}B written (modelled)\n", whole("vgpu__dram_bytes_read.sum"),
                        whole("vgpu__dram_bytes_written.sum"));
  }
  return text;
}

}  // namespace flashmoe::vgpu::observe
