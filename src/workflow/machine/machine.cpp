#include "workflow/machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/process.hpp"
#include "support/text.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double cheap_machine_per_hour = 1.0;
constexpr double much_work_hours = 1.0;
constexpr double idle_hours = 6.0;

}  // namespace

Result<MachineAnswer> ask_machine(const MachineCommands& commands, const std::string& directory,
                                  std::chrono::milliseconds limit) {
  if (commands.status.empty()) return MachineAnswer{};
  const auto finished =
      run_process({.argv = {"/bin/sh", "-c", commands.status}, .directory = directory, .limit = limit});
  if (!finished) return finished.error();
  if (finished->timed_out || finished->interrupted) {
    return Diagnostic{.message = "the status command '" + commands.status + "': " + finished->describe(),
                      .fix = "run it by hand; machine.status must answer within " +
                             std::to_string(limit.count() / 1000) + " s, exit code 0 meaning that the machine runs",
                      .key = "machine.status",
                      .code = codes::machine_status};
  }
  MachineAnswer answer;
  answer.state = finished->ok() ? MachineState::running : MachineState::stopped;
  answer.text = last_line(finished->out.empty() ? finished->err : finished->out);
  return answer;
}

Result<Done> command_machine(const std::string& key, const std::string& command, const std::string& directory,
                             std::chrono::milliseconds limit) {
  const auto finished = run_process({.argv = {"/bin/sh", "-c", command}, .directory = directory, .limit = limit});
  if (!finished) return finished.error();
  if (finished->ok()) return Done{};
  const std::string said = last_line(finished->err.empty() ? finished->out : finished->err);
  return Diagnostic{.message = fmt::format("{} '{}': {}{}", key, command, finished->describe(),
                                           said.empty() ? "" : " (" + said + ")"),
                    .fix = "run it by hand, and see that it ends with exit code 0",
                    .key = key,
                    .code = codes::machine_command};
}

Diagnostic machine_is_stopped(const MachineCommands& commands, const MachineAnswer& answer) {
  return {.message = "the machine does not run: '" + commands.status + "' said no" +
                     (answer.text.empty() ? "" : " (" + answer.text + ")"),
          .fix = commands.start.empty() ? "start the machine, or correct machine.status in cudadent.toml"
                                        : "start it: " + commands.start,
          .key = "machine.status",
          .code = codes::machine_stopped};
}

MachineAdvice advise(const Plans& plans, double machine_per_hour) {
  if (plans.work_ahead_hours > much_work_hours && machine_per_hour < cheap_machine_per_hour) {
    return MachineAdvice::keep_running;
  }
  const bool idle = plans.work_ahead_hours <= 0 && plans.next_work_in_hours.value_or(idle_hours) >= idle_hours;
  return idle ? MachineAdvice::stop : MachineAdvice::your_choice;
}

std::string advice_text(const Plans& plans, const Cost& cost, const MachineCommands& commands) {
  switch (advise(plans, cost.machine_per_hour)) {
    case MachineAdvice::keep_running:
      return fmt::format("Keep the machine running: {:.1f} h of work ahead at ${:.2f}/h.", plans.work_ahead_hours,
                         cost.machine_per_hour);
    case MachineAdvice::stop:
      return fmt::format("Stop the machine: nothing is planned for {:.0f} h, it costs ${:.2f}/h{}.", idle_hours,
                         cost.machine_per_hour, commands.stop.empty() ? "" : " (" + commands.stop + ")");
    case MachineAdvice::your_choice:
      break;
  }
  return fmt::format("Keep or stop the machine as you like: {:.1f} h of work ahead at ${:.2f}/h.",
                     plans.work_ahead_hours, cost.machine_per_hour);
}

CpuState cpu_state() {
  CpuState state;
  std::ifstream load("/proc/loadavg");
  if (double one = 0; load >> one) state.load_1min = one;
  std::ifstream info("/proc/cpuinfo");
  double slowest = 0;
  double fastest = 0;
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("cpu MHz") || colon == std::string::npos) continue;
    const double mhz = std::strtod(line.c_str() + colon + 1, nullptr);
    slowest = slowest == 0 ? mhz : std::min(slowest, mhz);
    fastest = std::max(fastest, mhz);
  }
  if (fastest > 0) state.cpu_mhz = {slowest, fastest};
  std::ifstream governor("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (std::string name; governor >> name) state.governor = name;
  return state;
}

}  // namespace flashmoe::workflow
