// cudadent doctor: is this machine fit for the work, and if not, what exactly to do.
#include "workflow/environment/doctor.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "devices/device.hpp"
#include "support/progress.hpp"
#include "workflow/device/gpu_json.hpp"

namespace flashmoe::tools {
namespace {

std::string painted(const char* colour, const std::string& text, bool colours) {
  return colours ? fmt::format("\033[{}m{}\033[0m", colour, text) : text;
}

void print_report(const workflow::DoctorReport& report) {
  const bool colours = may_colour(1);
  std::string group;
  for (const workflow::Finding& finding : report.findings) {
    if (finding.group != group) {
      group = finding.group;
      fmt::print("{}\n", group);
    }
    const char* mark = finding.severity == workflow::Severity::ok        ? "✓"
                       : finding.severity == workflow::Severity::warning ? "!"
                                                                         : "✗";
    const char* colour = finding.severity == workflow::Severity::ok        ? "32"
                         : finding.severity == workflow::Severity::warning ? "33"
                                                                           : "31";
    fmt::print("  {} {}\n", painted(colour, mark, colours), finding.what);
    if (!finding.fix.empty()) fmt::print("      fix: {}\n", finding.fix);
  }
  fmt::print("\n{} ({:.1f} s)\n", report.verdict, report.seconds);
}

void print_devices() {
  const auto shown = [](const Fact& fact) {
    return fmt::format("{:.6g}{}", fact.value, fact.verified() ? "" : " (unverified)");
  };
  const auto in_mb = [](Fact fact) {
    fact.value /= 1024 * 1024;
    return fact;
  };
  for (const Gpu& gpu : all_gpus())
    fmt::print("{:8} {}, {}: {} SMs, boost {} MHz, {} GB/s, L2 {} MB, {} TFLOPS fp16, {} W\n", gpu.id, gpu.name,
               gpu.architecture, shown(gpu.sm_count), shown(gpu.boost_clock_mhz), shown(gpu.dram_gb_per_s),
               shown(in_mb(gpu.l2_bytes)), shown(gpu.fp16_tensor_tflops), shown(gpu.board_watts));
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "look whether this machine is fit for the work");
  command->footer(
      "Looks at CPU, compilers, CUDA toolkit and driver, GPUs, Python with NumPy, torch and our extension, counter\n"
      "permissions, clocks and disk. It changes nothing and takes at most about five seconds. Every line that is not\n"
      "well has its fix below it. The exit code is 0 when all is well, 3 when something would be better (!), 1 when\n"
      "something must be repaired first (✗).\n\n"
      "Examples:\n"
      "  cudadent doctor\n"
      "  CUDADENT_PYTHON=~/venv/bin/python cudadent doctor   another Python\n"
      "  cudadent doctor --devices                           the GPUs there are: virtual:<name>\n"
      "  cudadent doctor --json | jq .data.cuda");
  auto options = std::make_shared<workflow::DoctorOptions>();
  auto json = std::make_shared<bool>(false);
  auto devices = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "The report as JSON on stdout, with all facts");
  command->add_flag("--devices", *devices,
                    "List the GPUs of the build gate and of --device virtual:<name>, and do nothing else");
  command->add_option("--directory", options->directory, "Whose disk is looked at")->check(CLI::ExistingDirectory);
  command->add_option("--python-seconds", options->python_limit_seconds, "How long one import may take")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  command->callback([=, &exit_code] {
    if (*devices) {
      if (*json) {
        fmt::print("{}\n", workflow::known_gpus().dump(2));
      } else {
        print_devices();
      }
      exit_code = 0;
      return;
    }
    workflow::DoctorReport report;
    {
      Progress progress(1);
      progress.step("doctor", 3);
      report = workflow::examine_machine(*options);
    }
    if (*json)
      fmt::print("{}\n", workflow::to_json(report).dump(2, ' ', false, Json::error_handler_t::replace));
    else
      print_report(report);
    exit_code = workflow::exit_code(report.outcome());
  });
}

}  // namespace flashmoe::tools
