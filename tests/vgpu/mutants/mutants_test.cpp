// The musts of the checks: correct kernels give no finding under any schedule, wrong ones are caught by the right
// check.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "vgpu/mutants/bench.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

const Case& case_of(const std::string& name) {
  for (const Case& how : cases()) {
    if (how.name == name) return how;
  }
  ADD_FAILURE() << "no case " << name;
  return cases().front();
}

std::string edited(const Mutant& mutant, std::string source) {
  const auto at = source.find(mutant.from);
  EXPECT_NE(at, std::string::npos) << mutant.name << ": \"" << mutant.from << "\" is not in " << mutant.kernel << ".cu";
  if (at != std::string::npos) source.replace(at, mutant.from.size(), mutant.to);
  return source;
}

// All variants in one compilation: seconds, not minutes.
ptx::Module build(const std::string& text, const std::string& name) {
  const auto ptx = compile(headers() + text, name);
  if (!ptx) {
    ADD_FAILURE() << ptx.error().to_string();
    return {};
  }
  auto module = ptx::parse(*ptx, name + ".ptx");
  if (!module) {
    ADD_FAILURE() << module.error().to_string();
    return {};
  }
  return std::move(*module);
}

// One warp of a kernel without a case of its own, from its text.
void run_alone(const std::string& text, const std::string& name, Seen& seen) {
  const ptx::Module module = build(text, name);
  if (::testing::Test::HasFailure()) return;
  const auto program = Program::load(module, name);
  ASSERT_TRUE(program) << program.error().to_string();
  auto ran = (*program)->run({name, {1}, {32}, 32, 32, 32}, schedule(0));
  ASSERT_TRUE(ran) << ran.error().to_string();
  seen = std::move(*ran);
}

TEST(Corpus, CorrectKernelsGiveNoFinding) {
  ASSERT_GE(cases().size(), 30u);
  std::string text;
  for (const Case& how : cases()) {
    const auto source = kernel_source(how.name);
    ASSERT_TRUE(source) << source.error().to_string();
    text += variant(*source, how.name, how.name);
  }
  const ptx::Module module = build(text, "kernels");
  if (HasFailure()) return;
  for (const Case& how : cases()) {
    SCOPED_TRACE(how.name);
    const auto program = Program::load(module, how.name);
    if (!program) {
      ADD_FAILURE() << program.error().to_string();
      continue;
    }
    for (std::uint64_t number = 0; number < schedules; ++number) {
      const auto seen = (*program)->run(how, schedule(number));
      ASSERT_TRUE(seen) << seen.error().to_string();
      const std::string problem = wrong(how, *seen);
      if (!problem.empty() || !seen->findings.empty()) {
        ADD_FAILURE() << "schedule " << number << ": " << problem << "\n" << all_text(seen->findings);
        break;
      }
    }
  }
  std::printf("%zu correct kernels under %d schedules each\n", cases().size(), static_cast<int>(schedules));
}

TEST(Corpus, EveryMutantIsCaughtByItsCheck) {
  ASSERT_GE(mutants().size(), 40u);
  std::string text;
  for (const Mutant& mutant : mutants()) {
    const auto source = kernel_source(mutant.kernel);
    ASSERT_TRUE(source) << source.error().to_string();
    text += variant(edited(mutant, *source), mutant.kernel, mutant.name);
  }
  if (HasFailure()) return;
  const ptx::Module module = build(text, "mutants");
  if (HasFailure()) return;
  std::size_t caught = 0;
  for (const Mutant& mutant : mutants()) {
    SCOPED_TRACE(mutant.name);
    const auto program = Program::load(module, mutant.name);
    if (!program) {
      ADD_FAILURE() << program.error().to_string();
      continue;
    }
    // Checks do not wait for the bug to strike: the natural schedule is enough.
    const auto seen = (*program)->run(case_of(mutant.kernel), schedule(0));
    ASSERT_TRUE(seen) << seen.error().to_string();
    bool right = false;
    for (const observe::Finding& finding : seen->findings) {
      const bool says = finding.message.find(mutant.says) != std::string::npos;
      if (finding.check != mutant.check || !says) continue;
      right = true;
      EXPECT_EQ(finding.at.source_file.substr(finding.at.source_file.rfind('/') + 1), mutant.kernel + ".cu")
          << finding.to_text();
      EXPECT_GT(finding.at.source_line, 0);
      EXPECT_GT(finding.at.ptx_line, 0);
      EXPECT_FALSE(finding.advice.empty());
      if (finding.check == observe::Check::racecheck) {
        EXPECT_TRUE(finding.other.has_value()) << finding.to_text();
      }
      break;
    }
    EXPECT_TRUE(right) << "not caught by " << observe::name_of(mutant.check) << "; fault: " << seen->fault.message
                       << "\n"
                       << all_text(seen->findings);
    caught += right ? 1 : 0;
  }
  std::printf("%zu of %zu mutants caught\n", caught, mutants().size());
}

// What racecheck says of lanes within a warp is true: right as long as they stay in step, wrong when they do not.
TEST(Corpus, LanesOutOfStepGiveWrongResults) {
  const auto mutant = std::find_if(mutants().begin(), mutants().end(),
                                   [](const Mutant& one) { return one.name == "no_syncwarp_written"; });
  ASSERT_NE(mutant, mutants().end());
  const auto source = kernel_source(mutant->kernel);
  ASSERT_TRUE(source) << source.error().to_string();
  const ptx::Module module = build(variant(edited(*mutant, *source), mutant->kernel, mutant->name), "out_of_step");
  if (HasFailure()) return;
  const auto program = Program::load(module, mutant->name);
  ASSERT_TRUE(program) << program.error().to_string();
  const Case& how = case_of(mutant->kernel);
  int wrong_schedules = 0;
  for (std::uint64_t number = 0; number < schedules; ++number) {
    const auto seen = (*program)->run(how, schedule(number));
    ASSERT_TRUE(seen) << seen.error().to_string();
    const bool is_wrong = !wrong(how, *seen).empty();
    EXPECT_FALSE(number == 0 && is_wrong) << "the natural schedule keeps lanes in step";
    wrong_schedules += is_wrong ? 1 : 0;
  }
  EXPECT_GT(wrong_schedules, 0);
}

// A counter that all lanes read before one writes it: who read it is not who writes it.
TEST(Corpus, ARaceIsBetweenTwoThreads) {
  Seen seen;
  run_alone(R"(
extern "C" __global__ void counted(const float* in, float* out, unsigned* work, int n) { out[0] += in[threadIdx.x]; }
)",
            "counted", seen);
  if (HasFailure()) return;
  const auto race = std::find_if(seen.findings.begin(), seen.findings.end(), [](const observe::Finding& one) {
    return one.check == observe::Check::racecheck && one.other;
  });
  ASSERT_NE(race, seen.findings.end()) << all_text(seen.findings);
  EXPECT_NE(race->at.thread.x, race->other->thread.x) << race->to_text();
}

// A dispatch table with a stale signature, in plain C++: stopped at the call, with the line.
TEST(Corpus, AFunctionPointerOfTheWrongTypeIsAFault) {
  Seen seen;
  run_alone(R"(
struct Words { unsigned long long word[2048]; };
__device__ __noinline__ void store(int value, unsigned* work) { work[0] = value; }
extern "C" __global__ void stale(const float* in, float* out, unsigned* work, int n) {
  void* volatile entry = (void*)store;
  Words words;
  for (int i = 0; i < 2048; ++i) words.word[i] = n + work[i & 63];
  ((void (*)(Words))entry)(words);
}
)",
            "stale", seen);
  if (HasFailure()) return;
  EXPECT_EQ(seen.fault.kind, exec::Fault::Kind::illegal_instruction);
  EXPECT_NE(seen.fault.message.find("function pointer of the wrong type"), std::string::npos) << seen.fault.message;
  EXPECT_NE(seen.fault.message.find("stale.cu:9"), std::string::npos) << seen.fault.message;
}

}  // namespace
}  // namespace flashmoe::vgpu::corpus
