// What a call computes and moves, and the roofs of the GPU over it.
#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "devices/device.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "workflow/report/run_report.hpp"

namespace flashmoe::workflow {
namespace {

// "@%p1 fma.rn.f32 %f1, ..." -> {"fma", "rn", "f32"}
std::vector<std::string> opcode_parts(const std::string& text) {
  std::size_t begin = 0;
  if (!text.empty() && text[0] == '@') begin = text.find_first_not_of(" \t", text.find_first_of(" \t"));
  if (begin == std::string::npos) return {};
  const std::string opcode = text.substr(begin, text.find_first_of(" \t;", begin) - begin);
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= opcode.size();) {
    const std::size_t end = std::min(opcode.find('.', at), opcode.size());
    parts.push_back(opcode.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Of one instruction of a warp, all lanes together.
double flops_of_mma(const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    int m = 0, n = 0, k = 0;
    if (std::sscanf(part.c_str(), "m%dn%dk%d", &m, &n, &k) == 3) return 2.0 * m * n * k;
  }
  return 0;
}

// Of one thread.
double flops_of_scalar(const std::vector<std::string>& parts) {
  const std::string& type = parts.back();
  const bool is_float = type.starts_with("f") || type.starts_with("bf");
  if (!is_float) return 0;
  const double lanes = type.ends_with("x2") ? 2 : 1;
  if (parts[0] == "fma" || parts[0] == "mad") return 2 * lanes;
  return parts[0] == "add" || parts[0] == "sub" || parts[0] == "mul" ? lanes : 0;
}

double metric(const LaunchReport& launch, const char* name) {
  const auto found = launch.metrics.find(name);
  return found == launch.metrics.end() ? 0 : found->second;
}

}  // namespace

double flops_of(const LaunchReport& launch) {
  double sum = 0;
  const Json report = parse_json(launch.json);
  for (const Json& line : list_in(report, "ptx_lines")) {
    const std::vector<std::string> parts = opcode_parts(text_in(line, "text"));
    if (parts.size() < 2) continue;
    if (parts[0] == "mma" || parts[0] == "wmma") {
      sum += flops_of_mma(parts) * number_in(line, "inst_executed");
    } else {
      sum += flops_of_scalar(parts) * number_in(line, "thread_inst_executed");
    }
  }
  return sum;
}

double dram_bytes_of(const LaunchReport& launch) {
  return metric(launch, "vgpu__dram_bytes_read.sum") + metric(launch, "vgpu__dram_bytes_written.sum") +
         metric(launch, "vgpu__l2_dirty_bytes_at_end");
}

std::optional<RooflinePoint> place_of(const PredictionRun& run, const std::string& name) {
  double flops = 0;
  double bytes = 0;
  for (const LaunchPrediction& launch : run.launches) {
    flops += flops_of(launch.report);
    bytes += dram_bytes_of(launch.report);
  }
  const predict::Time time = run.boost();
  if (!run.is_predicted() || flops == 0 || bytes == 0 || time.us == 0) return std::nullopt;
  const auto tflops = [flops](double us) { return flops / us / 1e6; };
  return RooflinePoint{.name = name,
                       .flop_per_byte = flops / bytes,
                       .tflops = tflops(time.us),
                       .least_tflops = tflops(time.most_us),
                       .most_tflops = tflops(time.least_us)};
}

std::vector<Roof> roofs_of(const std::string& id) {
  const auto gpu = find_gpu(id);
  if (!gpu || gpu->dram_gb_per_s.value == 0) return {};
  std::vector<Roof> roofs{
      {.name = fmt::format("DRAM {:.0f} GB/s", gpu->dram_gb_per_s.value), .gb_per_s = gpu->dram_gb_per_s.value}};
  const auto add = [&](const char* name, double tflops) {
    if (tflops > 0) roofs.push_back({.name = fmt::format("{} {:.3g} TFLOP/s", name, tflops), .tflops = tflops});
  };
  add("fp16 tensor", gpu->fp16_tensor_tflops.value);
  if (const auto architecture = find_architecture(std::string(gpu->architecture))) {
    add("fp32",
        2 * architecture->rates.fp32_multiply_add.value * gpu->sm_count.value * gpu->boost_clock_mhz.value / 1e6);
  }
  return roofs.size() > 1 ? roofs : std::vector<Roof>{};
}

}  // namespace flashmoe::workflow
