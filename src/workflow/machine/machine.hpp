// The machine the work runs on has a state and a price. The user's own commands tell the first; a rule turns both into
// advice.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/statistics/pair.hpp"

namespace flashmoe::workflow {

enum class MachineState { not_asked, running, stopped };

struct MachineAnswer {
  MachineState state = MachineState::not_asked;
  std::string text{};  // what the user's command said
};

// Steps expected to take longer ask first.
inline constexpr double ask_machine_above_seconds = 60;

// Runs the user's status command (sh -c, in the project): exit code 0 is running, anything else is not. Without a
// command the machine is not asked. A command that hangs is a diagnostic.
[[nodiscard]] Result<MachineAnswer> ask_machine(const MachineCommands& commands, const std::string& directory,
                                                std::chrono::milliseconds limit = std::chrono::seconds(20));
// Runs the user's start or stop command (`key`: "machine.start"), which must end well and in time.
[[nodiscard]] Result<Done> command_machine(const std::string& key, const std::string& command,
                                           const std::string& directory,
                                           std::chrono::milliseconds limit = std::chrono::minutes(5));
// What to say when a step cannot start because the machine does not run.
[[nodiscard]] Diagnostic machine_is_stopped(const MachineCommands& commands, const MachineAnswer& answer);

enum class MachineAdvice { keep_running, stop, your_choice };

struct Plans {
  double work_ahead_hours = 0;
  std::optional<double> next_work_in_hours{};  // unset: nothing is planned
};

// Keep it: more than an hour of work ahead and under $1/h. Stop it: nothing planned for 6 h.
[[nodiscard]] MachineAdvice advise(const Plans& plans, double machine_per_hour);
// One sentence with its reason and, for a stop, the user's own command.
[[nodiscard]] std::string advice_text(const Plans& plans, const Cost& cost, const MachineCommands& commands);

// Clocks and load right now, as far as the kernel tells; for the record of a measurement.
[[nodiscard]] CpuState cpu_state();

}  // namespace flashmoe::workflow
