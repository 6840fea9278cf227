// cudadent doctor: is this machine fit for the work, and if not, what exactly to do.
#include "workflow/environment/doctor.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "devices/device.hpp"
#include "support/progress.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::DoctorOptions options;
  JsonFlag json;
  bool devices = false;
};

void print_report(const workflow::DoctorReport& report) {
  const bool colours = may_colour(1);
  std::string group;
  for (const workflow::Finding& finding : report.findings) {
    if (finding.group != group) {
      group = finding.group;
      fmt::print("{}\n", group);
    }
    fmt::print("  {} {}\n", mark_of(finding.severity, colours), finding.what);
    if (!finding.fix.empty()) fmt::print("      fix: {}\n", finding.fix);
  }
  fmt::print("\n");
}

// What is to be repaired is looked at again; on a fit machine the work begins.
std::string next_of(const workflow::DoctorReport& report, const std::string& directory) {
  if (report.outcome() == workflow::Outcome::could_not_run) return "cudadent doctor";
  return std::filesystem::exists(directory + "/cudadent.toml") ? "cudadent gate" : "cudadent new";
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

int run(const Flags& flags) {
  if (flags.devices) {
    if (flags.json) {
      fmt::print("{}", devices_json(answer_of("doctor", flags.json, 0, "", "cudadent gate")));
    } else {
      print_devices();
    }
    return 0;
  }
  workflow::DoctorReport report;
  {
    Progress progress(1);
    progress.step("doctor", 3);
    report = workflow::examine_machine(flags.options);
  }
  const int code = workflow::exit_code(report.outcome());
  const std::string next = next_of(report, flags.options.directory);
  if (flags.json) {
    fmt::print("{}", doctor_json(answer_of("doctor", flags.json, code, report.code(), next), report));
  } else {
    print_report(report);
    fmt::print("{}", last_line(fmt::format("{} ({:.1f} s)", report.verdict, report.seconds), next));
  }
  return code;
}

constexpr const char* manual =
    R"(Looks at CPU, compilers, CUDA toolkit and driver, GPUs, Python with NumPy, torch and our extension, counter
permissions, clocks and disk. It changes nothing and takes at most about five seconds. Every line that is not
well has its fix below it. The exit code is 0 when all is well, 3 when something would be better (!), 4 when
something must be repaired first (✗).

Examples:
  cudadent doctor
  CUDADENT_PYTHON=~/venv/bin/python cudadent doctor   another Python
  cudadent doctor --devices                           the GPUs that the build gate knows
  cudadent doctor --json | jq .data.cuda)";

}  // namespace

Command doctor_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "doctor",
          .about = "Is this machine fit for the work, and if not, what is the fix?",
          .manual = manual,
          .options = {json_option(flags->json, "The report as JSON on stdout, with all facts"),
                      {.names = "--devices",
                       .value = &flags->devices,
                       .about = "List the GPUs whose limits the build gate knows, and do nothing else"},
                      {.names = "--directory",
                       .value = &flags->options.directory,
                       .about = "Whose disk is looked at",
                       .is_directory = true},
                      {.names = "--python-seconds",
                       .value = &flags->options.python_limit_seconds,
                       .about = "How long one import may take",
                       .shows_default = true,
                       .range = {{0.1, 600.0}}}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
