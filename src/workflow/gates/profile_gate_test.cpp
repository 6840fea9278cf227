// The one bottleneck of a kernel on the CPU: named with its evidence, degraded without counters, and no evidence where
// nobody judged the kernel.
#include "workflow/gates/profile_gate.hpp"

#include "workflow/device/capabilities.hpp"
#include "workflow/gates/host_profile.hpp"
#include "workflow/gates/sleeping_project_for_test.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Result<Profile> profiled(const SleepingProject& sleeping, const ProfileRequest& request) {
  const auto project = load_project(sleeping.project.directory);
  if (!project) return project.error();
  Progress quiet(profile_gate_steps, true);
  return profile_project(*project, request, quiet);
}

const ProfileFacts& facts_of(const Profile& profile) {
  return std::get<ProfileFacts>(profile.result.facts);
}

// Whether this machine lets the processor's counters be read is its own affair; what follows from it is not.
TEST(ProfileGate, NamesABottleneckAndSaysWhatItIsNamedFrom) {
  const SleepingProject sleeping("2");
  const auto profile = profiled(sleeping, {.device = "cpu", .seed = 5});
  ASSERT_TRUE(profile) << profile.error().to_string();
  const ProfileFacts& facts = facts_of(*profile);
  ASSERT_TRUE(facts.bottleneck);
  EXPECT_EQ(facts.bottleneck->rule, "waiting") << facts.bottleneck->says;
  EXPECT_FALSE(facts.bottleneck->change.empty());
  EXPECT_EQ(facts.seed, 5u);
  EXPECT_EQ(*find_named(facts.counted, "bytes"), 64) << "eight floats in, eight out";
  const CounterKind counters = capabilities_of(*parse_device("cpu")).counters;
  EXPECT_EQ(facts.counters, name_of(counters));
  const bool is_degraded = counters == CounterKind::degraded;
  EXPECT_EQ(facts.degraded.rfind("no counters: ", 0) == 0, is_degraded) << facts.degraded;
  EXPECT_EQ(*find_named(facts.counted, "counted"), is_degraded ? 0 : 1);
  EXPECT_EQ(find_named(facts.counted, "cycles") == nullptr, is_degraded) << "what nobody counted is not zero";
  EXPECT_EQ(profile->result.outcome, is_degraded ? Outcome::inconclusive : Outcome::holds);
  EXPECT_EQ(profile->result.code, is_degraded ? codes::profile_degraded : "");
  EXPECT_EQ(profile_text(*profile).find("Degraded: no counters") != std::string::npos, is_degraded);

  const auto records = Journal(sleeping.project.directory).read();
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 1u);
  const Record& record = records->front();
  EXPECT_EQ(record.kind, "profile");
  EXPECT_EQ(record.device, "cpu");
  EXPECT_EQ(record.evidence->kind, measured_evidence);
  EXPECT_NE(find_named(record.hashes, "kernel"), nullptr);
  ASSERT_NE(record.as<ProfileRecord>(), nullptr);
  EXPECT_TRUE(record.as<ProfileRecord>()->profile == facts);
  EXPECT_NE(list_line(record).find("it waits instead of computing"), std::string::npos) << list_line(record);
}

TEST(ProfileGate, OfAWrongKernelNothingIsNamedButWithDebugAndThenItIsNoEvidence) {
  const SleepingProject wrong("3");
  const auto refused = profiled(wrong, {.device = "cpu"});
  ASSERT_TRUE(refused) << refused.error().to_string();
  EXPECT_EQ(refused->result.outcome, Outcome::fails);
  EXPECT_EQ(refused->result.code, codes::correctness_wrong_result);
  EXPECT_FALSE(facts_of(*refused).bottleneck);
  EXPECT_NE(profile_text(*refused).find("the result is wrong in workload tiny"), std::string::npos)
      << profile_text(*refused);

  const auto debugged = profiled(wrong, {.device = "cpu", .debug = true});
  ASSERT_TRUE(debugged) << debugged.error().to_string();
  ASSERT_TRUE(facts_of(*debugged).bottleneck);
  EXPECT_EQ(facts_of(*debugged).bottleneck->rule, "waiting");
  EXPECT_EQ(debugged->result.outcome, Outcome::inconclusive);
  EXPECT_EQ(debugged->result.code, codes::profile_no_evidence);
  EXPECT_NE(profile_text(*debugged).find("no evidence"), std::string::npos);
  EXPECT_EQ(debugged->record.verdict, "debug");
  ASSERT_TRUE(debugged->record.evidence);
  EXPECT_EQ(debugged->record.evidence->kind, no_evidence);
  EXPECT_TRUE(debugged->record.as<ProfileRecord>()->profile.debug);
}

TEST(ProfileGate, AloneItIsTheVerdict) {
  SleepingProject sleeping("2");
  const GateRun run = sleeping.run({.only = "profile", .record = false});
  EXPECT_EQ(gate(run, "performance").summary, "not run: not asked for");
  EXPECT_TRUE(std::get<ProfileFacts>(gate(run, "profile").facts).bottleneck) << report_text(run, false);
  EXPECT_EQ(run.outcome, gate(run, "profile").outcome);
  EXPECT_EQ(run.code, gate(run, "profile").code);

  SleepingProject wrong("3");
  EXPECT_EQ(wrong.run({.only = "profile", .record = false}).code, codes::correctness_wrong_result);
}

TEST(ProfileGate, AKernelThatCrashesIsNotProfiled) {
  SleepingProject crashing("2");
  crashing.write("kernel.cpp",
                 "#include <cudadent/kernel.h>\nextern \"C\" int kernel(const cudadent_call*) { "
                 "*(volatile int*)16 = 1; return 0; }\n");
  const auto profile = profiled(crashing, {.device = "cpu", .debug = true});
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, codes::kernel_crashed);
}

TEST(HostProfile, CopyingHasASpeed) {
  for (const double bytes : {0.0, 1e5, 3e7}) {
    EXPECT_GT(copying_speed(bytes, 1), 1e6) << bytes;
    EXPECT_GT(copying_speed(bytes, 2), 1e6) << bytes;
  }
}

}  // namespace
}  // namespace flashmoe::workflow
