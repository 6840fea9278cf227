// Mistakes people make, each in a real kernel: the gate must stop it and name the mistake with its fix.
#include "workflow/gates/correctness.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "workflow/compile/cpu_build.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

fs::path attention_example() {
  return fs::path(__FILE__).parent_path() / ".." / ".." / ".." / "examples" / "cudadent" / "attention";
}

// A plain attention with one mistake switched on by name.
constexpr const char* attention_source = R"(#include <cudadent/kernel.h>
#include <cmath>
#include <string_view>
#include <vector>
#include "half.hpp"
constexpr std::string_view mistake = MISTAKE;
static int64_t B, H, S, D;
static int64_t place(bool is_kv, int64_t b, int64_t h, int64_t i, int64_t d) {
  if (mistake == "swapped_layout") return ((b * S + i) * H + h) * D + d;
  if (mistake == "wrong_stride" && is_kv) return ((b * H + h) * S * D + i * S + d) % (B * H * S * D);
  return ((b * H + h) * S + i) * D + d;
}
extern "C" int attention(const cudadent_call* call) {
  const auto* q = (const uint16_t*)call->tensors[0].data;
  const auto* k = (const uint16_t*)call->tensors[1].data;
  const auto* v = (const uint16_t*)call->tensors[2].data;
  auto* o = (uint16_t*)call->tensors[3].data;
  auto* lse = (float*)call->tensors[4].data;
  B = call->tensors[0].shape[0]; H = call->tensors[0].shape[1];
  S = call->tensors[0].shape[2]; D = call->tensors[0].shape[3];
  const bool causal = cudadent_param_or(call, "causal", 0) != 0;
  const double scale = mistake == "missing_scale" ? 1 : 1 / std::sqrt((double)D);
  if (mistake == "hang") for (volatile bool forever = true; forever;) {}
  if (mistake == "crash") *(volatile int*)8 = 1;
  static uint16_t calls = 0;
  ++calls;
  for (int64_t b = 0; b < B; ++b) for (int64_t h = 0; h < H; ++h) for (int64_t i = 0; i < S; ++i) {
    const int64_t last = mistake == "mask_shift_plus" ? i + 1 : mistake == "mask_shift_minus" ? i - 1 : i;
    std::vector<double> p(S, 0.0);
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < S; ++j) {
      if (causal && j > last) continue;
      for (int64_t d = 0; d < D; ++d) p[j] += decode_f16(q[place(false, b, h, i, d)]) * decode_f16(k[place(true, b, h, j, d)]);
      p[j] *= scale;
      largest = std::fmax(largest, p[j]);
    }
    for (int64_t j = 0; j < S; ++j) {
      p[j] = causal && j > last ? 0 : std::exp(p[j] - largest);
      sum += p[j];
    }
    for (int64_t d = 0; d < D; ++d) {
      double out = 0;
      for (int64_t j = 0; j < S; ++j) out += p[j] * decode_f16(v[place(true, b, h, j, d)]);
      o[place(false, b, h, i, d)] = encode_f16(mistake == "unnormalised" || sum == 0 ? out : out / sum);
    }
    if (mistake == "another_last_bit" && S > 1) o[place(false, b, h, i, 0)] ^= calls & 1;
    lse[(b * H + h) * S + i] = (float)(sum == 0 ? -INFINITY : largest + std::log(sum));
  }
  return 0;
}
)";

struct AttentionWith {
  fs::path directory;
  Project project;
  std::string problem;

  explicit AttentionWith(const std::string& mistake) {
    std::string pattern = (fs::temp_directory_path() / "cudadent-mutant-XXXXXX").string();
    directory = mkdtemp(pattern.data());
    for (const char* file : {"cudadent.toml", "reference.cpp", "half.hpp", "kernel.cpp", "baseline.py"}) {
      fs::copy_file(attention_example() / file, directory / file);
    }
    std::ofstream(directory / "mutant.cpp") << "#define MISTAKE \"" << mistake << "\"\n" << attention_source;
    auto loaded = load_project(directory.string());
    if (!loaded) {
      problem = loaded.error().to_string();
      return;
    }
    project = std::move(*loaded);
    project.kernel.source = "mutant.cpp";
    project.kernel.libraries.clear();
    project.cpu_flags = {"-O2"};
    project.random_workloads = 2;
    project.hard_values = {"denormal", "zero"};
    project.call_limit_seconds = mistake == "hang" ? 2 : 60;  // nothing else may reach it, however slow the machine
  }
  ~AttentionWith() { fs::remove_all(directory); }
  AttentionWith(const AttentionWith&) = delete;
  AttentionWith& operator=(const AttentionWith&) = delete;

  Runnable built(const Callable& callable, const std::string& role) {
    const auto made = build_cpu(project, callable, role);
    if (!made) {
      problem = made.error().to_string();
      return {};
    }
    return library_runnable(*made, role);
  }

  GateResult check() {
    const Runnable kernel = built(project.kernel, "kernel");
    const Runnable reference = built(project.reference, "reference");
    EXPECT_EQ(problem, "");
    Progress quiet(1, true);
    return run_correctness_gate(project, kernel, reference, {.seed = 11}, quiet);
  }
};

TEST(CorrectnessGate, HoldsForAPlainAttention) {
  const GateResult result = AttentionWith("none").check();
  EXPECT_EQ(result.outcome, Outcome::holds) << result.summary;
  EXPECT_GE(std::get<CorrectnessFacts>(result.facts).cases.size(), 5u);
}

TEST(CorrectnessGate, ReportsResultsThatAreNotTheSameBitsTwice) {
  const GateResult result = AttentionWith("another_last_bit").check();
  EXPECT_EQ(result.outcome, Outcome::holds) << result.summary;
  const auto reported = std::count_if(result.findings.begin(), result.findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::warning && finding.what.starts_with("not the same bits twice");
  });
  EXPECT_GE(reported, 1);
}

TEST(CorrectnessGate, HardValuesAreTriedWhereItIsTimedAndAtShapesNobodyChose) {
  AttentionWith attention("none");
  attention.project.hard_values = {"huge"};
  ASSERT_TRUE(target_workload(attention.project));
  const std::string target = target_workload(attention.project)->name;
  std::vector<std::string> hard;
  for (const CorrectnessCase& one : correctness_cases(attention.project, 11)) {
    if (!one.hard.empty()) hard.push_back(one.name);
  }
  ASSERT_EQ(hard.size(), 4u);
  EXPECT_EQ(hard[0], "tiny with huge values");
  EXPECT_EQ(hard[1], target + " with large values");
  EXPECT_TRUE(hard[2].starts_with("random ")) << hard[2];
  EXPECT_TRUE(hard[3].starts_with("random ")) << hard[3];
}

TEST(CorrectnessGate, EndsOfEveryRangeAreTried) {
  Project project;
  project.tensors.resize(1);
  project.tensors[0].shape = {"n"};
  project.params = {{.name = "n", .default_value = 8, .choices = {}, .min = 0, .max = 5000},
                    {.name = "m", .default_value = 3, .choices = {}, .min = 1, .max = 40},
                    {.name = "fixed", .default_value = 2, .choices = {}, .min = 2, .max = 2}};
  project.workloads = {{.name = "tiny", .values = {{"n", 8}, {"m", 1}, {"fixed", 2}}}};
  project.random_workloads = 0;
  project.hard_values.clear();
  std::vector<std::string> names;
  for (const CorrectnessCase& one : correctness_cases(project, 1)) names.push_back(one.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tiny", "empty n=0", "end n=5000", "end m=40"})) << "m = 1 is tiny's own";
}

class NamedMistake : public testing::TestWithParam<const char*> {};

TEST_P(NamedMistake, IsStoppedAtTheTinyWorkloadWithItsFix) {
  AttentionWith attention(GetParam());
  const GateResult result = attention.check();
  EXPECT_EQ(result.outcome, Outcome::fails) << result.summary;
  const auto& facts = std::get<CorrectnessFacts>(result.facts);
  ASSERT_TRUE(facts.diagnosis && facts.wrong) << result.summary;
  EXPECT_EQ(facts.diagnosis->kind, "hypothesis");
  EXPECT_EQ(facts.diagnosis->name, GetParam()) << result.summary;
  EXPECT_EQ(facts.wrong->case_name, "tiny");
  ASSERT_FALSE(result.findings.empty());
  for (const Hypothesis& hypothesis : attention.project.hypotheses) {
    if (hypothesis.variant != GetParam()) continue;
    EXPECT_NE(result.findings.back().fix.find(hypothesis.fix), std::string::npos);
    EXPECT_NE(result.summary.find(hypothesis.says), std::string::npos);
  }
  EXPECT_NE(result.findings.back().what.find("expected"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Attention, NamedMistake,
                         testing::Values("swapped_layout", "mask_shift_plus", "mask_shift_minus", "missing_scale",
                                         "unnormalised", "wrong_stride"));

// Results of the size 1 and an allowance of 10,000: nothing can be wrong there, so nothing is right.
TEST(CorrectnessGate, CannotJudgeByATolerantToleranceAndSaysWhichToWrite) {
  AttentionWith attention("unnormalised");
  for (TensorSpec& tensor : attention.project.tensors) {
    if (tensor.name == "o") tensor.tolerance = {1e4, 0};
  }
  const GateResult result = attention.check();
  EXPECT_EQ(result.outcome, Outcome::could_not_run) << result.summary;
  EXPECT_EQ(std::get<CorrectnessFacts>(result.facts).failure, "blind tolerance");
  EXPECT_NE(result.summary.find("accepts zeros in workload tiny"), std::string::npos) << result.summary;
  EXPECT_NE(result.findings.back().fix.find("relative = 0.002 for 'o'"), std::string::npos)
      << result.findings.back().fix;
}

TEST(CorrectnessGate, NamesAHang) {
  const GateResult result = AttentionWith("hang").check();
  EXPECT_EQ(result.outcome, Outcome::fails);
  EXPECT_EQ(std::get<CorrectnessFacts>(result.facts).failure, "hung");
  EXPECT_NE(result.summary.find("hung in workload tiny"), std::string::npos) << result.summary;
  EXPECT_NE(result.findings.back().fix.find("call_limit_seconds"), std::string::npos);
}

TEST(CorrectnessGate, NamesACrash) {
  const GateResult result = AttentionWith("crash").check();
  EXPECT_EQ(result.outcome, Outcome::fails);
  EXPECT_EQ(std::get<CorrectnessFacts>(result.facts).failure, "crashed");
  EXPECT_NE(result.summary.find("SIGSEGV"), std::string::npos) << result.summary;
  EXPECT_NE(result.findings.back().fix.find("[cpu] flags"), std::string::npos) << "a key that cudadent.toml has";
}

}  // namespace
}  // namespace flashmoe::workflow
