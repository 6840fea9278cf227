#include "workflow/machine/machine.hpp"

#include <gtest/gtest.h>

namespace flashmoe::workflow {
namespace {

TEST(Machine, IsNotAskedWithoutACommand) {
  const auto answer = ask_machine({}, ".");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->state, MachineState::not_asked);
}

TEST(Machine, TheExitCodeOfTheUsersCommandIsTheAnswer) {
  const auto up = ask_machine({.status = "echo RUNNING", .start = "", .stop = ""}, ".");
  ASSERT_TRUE(up);
  EXPECT_EQ(up->state, MachineState::running);
  EXPECT_EQ(up->text, "RUNNING");
  const MachineCommands commands{
      .status = "echo asking; echo TERMINATED; exit 1", .start = "cloud start l4", .stop = ""};
  const auto down = ask_machine(commands, ".");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->state, MachineState::stopped);
  const Diagnostic diagnostic = machine_is_stopped(commands, *down);
  EXPECT_NE(diagnostic.message.find("TERMINATED"), std::string::npos);
  EXPECT_NE(diagnostic.fix.find("cloud start l4"), std::string::npos);
}

TEST(Machine, AHangingCommandIsADiagnosticNotAHang) {
  const auto answer =
      ask_machine({.status = "sleep 1000", .start = "", .stop = ""}, ".", std::chrono::milliseconds(200));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().key, "machine.status");
}

TEST(Advice, KeepsACheapMachineWithWorkAhead) {
  EXPECT_EQ(advise({.work_ahead_hours = 1.5}, 0.8), MachineAdvice::keep_running);
  EXPECT_EQ(advise({.work_ahead_hours = 1.0}, 0.8), MachineAdvice::your_choice) << "an hour is not more than an hour";
  EXPECT_EQ(advise({.work_ahead_hours = 1.5}, 1.0), MachineAdvice::your_choice) << "$1/h is not under $1/h";
}

TEST(Advice, StopsAMachineNobodyNeedsForSixHours) {
  EXPECT_EQ(advise({}, 0.8), MachineAdvice::stop) << "nothing planned at all";
  EXPECT_EQ(advise({.work_ahead_hours = 0, .next_work_in_hours = 6}, 0.8), MachineAdvice::stop);
  EXPECT_EQ(advise({.work_ahead_hours = 0, .next_work_in_hours = 5.9}, 0.8), MachineAdvice::your_choice);
  EXPECT_EQ(advise({.work_ahead_hours = 0.5, .next_work_in_hours = 10}, 0.8), MachineAdvice::your_choice);
}

TEST(Advice, NamesTheReasonAndTheUsersCommand) {
  const std::string text = advice_text({}, {.machine_per_hour = 0.75, .agent_per_hour = 0},
                                       {.status = "", .start = "", .stop = "cloud stop l4"});
  EXPECT_NE(text.find("Stop"), std::string::npos);
  EXPECT_NE(text.find("cloud stop l4"), std::string::npos);
  EXPECT_NE(text.find("$0.75/h"), std::string::npos);
}

TEST(CpuState, TellsTheLoad) {
  EXPECT_TRUE(cpu_state().load_1min);
}

}  // namespace
}  // namespace flashmoe::workflow
