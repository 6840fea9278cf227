// Reading cudadent.toml: what a good file becomes, and what every kind of bad file is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "workflow/project/project.hpp"
#include "workflow/project/scaffold.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* good = R"toml(name = "demo"
description = "every table once"

kernel = "kernel.cpp:run"
reference = { call = "reference.py:reference", name = "double" }

[baseline]
call = "baseline.cpp:naive"
sources = ["helper.cpp"]
libraries = ["m"]

[params]
n = { default = 64, range = [0, 100] }
D = { choices = [64, 128] }
causal = { default = true, choices = [false, true] }
scale = 0.5

[inputs]
x = "f16[n, D]"
y = { type = "bf16[n, ceil_div(D, 2)]", init = "uniform", stride = ["D", 1] }

[outputs]
z = { type = "f32[n]", absolute = 1e-3, relative = 1e-4 }
w = "f32[n]"

[stages]
scores = "f64[n, n]"

[workloads]
zero = { n = 1 }
big = { n = 1000, D = 128, causal = false }

[cpu]
include = ["include"]
flags = ["-O3"]

[cuda]
sources = ["a.cu", "b.cu"]
architectures = ["sm_89", "sm_90a"]
device = "h100"
flags = ["--use_fast_math"]

[[cuda.instances]]
name = "k<float, 64>"
source = "b.cu"
grid = ["ceil_div(n, 32)", 2]
block = 128
shared_bytes = "n * 4"
max_spill_bytes = 8
min_occupancy = 0.25

[correctness]
random_workloads = 3
hard_values = ["nan", "zero"]
call_limit_seconds = 2.5

[thresholds]
ladder = [0.25, 0.5, 1, 2]
small = "zero"
target = "big"
baseline_drift = 0.2
least_gain = { tuning = 0.05 }
max_iterations = 5
max_minutes = 30

[cost]
machine_per_hour = 0.71
agent_per_hour = 3

[machine]
status = "true"

[[hypotheses]]
variant = "flipped"
says = "the mask is flipped"
fix = "turn it round"

[tunables]
rows = { choices = [16, 32, 64], default = 64, phase = "parallelism", counter = "launch__grid_size" }
stages = { range = [1, 3], requires = "stages < 3 or rows < 64" }
async = { choices = [false, true], phase = "memory" }

[[tunable_rules]]
when = "stages > 1"
then = "async"
because = "one buffer cannot be filled while it is read"

[scratch]
partial = "f32[stages, n]"
arrived = { type = "i32[ceil_div(n, rows)]", zeroed = true }
)toml";

TEST(LoadProject, EveryValueArrives) {
  const Result<Project> project = parse_project(good, "/p/cudadent.toml");
  ASSERT_TRUE(project) << project.error().to_string();
  EXPECT_EQ(project->directory, "/p");
  EXPECT_EQ(project->name, "demo");
  EXPECT_EQ(project->kernel.kind, CallableKind::cpp);
  EXPECT_EQ(project->kernel.source, "kernel.cpp");
  EXPECT_EQ(project->kernel.entry, "run");
  EXPECT_EQ(project->kernel.name, "run");
  EXPECT_EQ(project->kernel.line, 4);
  EXPECT_EQ(project->reference.kind, CallableKind::python);
  EXPECT_EQ(project->reference.name, "double");
  EXPECT_EQ(project->baseline.sources, std::vector<std::string>{"helper.cpp"});
  EXPECT_EQ(project->baseline.libraries, std::vector<std::string>{"m"});

  ASSERT_EQ(project->params.size(), 4u);  // in the order of the file, not of the alphabet
  EXPECT_EQ(project->params[0].name, "n");
  EXPECT_EQ(project->params[0].min, 0);
  EXPECT_EQ(project->params[0].max, 100);
  EXPECT_EQ(project->params[1].default_value, 64);
  EXPECT_EQ(project->params[2].choices, (std::vector<double>{0, 1}));
  EXPECT_EQ(project->params[3].min, project->params[3].max);

  ASSERT_EQ(project->tensors.size(), 7u);
  EXPECT_EQ(project->tensors[0].dtype, CUDADENT_F16);
  EXPECT_EQ(project->tensors[1].shape, (std::vector<std::string>{"n", " ceil_div(D, 2)"}));
  EXPECT_EQ(project->tensors[1].stride, (std::vector<std::string>{"D", "1"}));
  EXPECT_EQ(project->tensors[1].init, "uniform");
  EXPECT_EQ(project->tensors[2].name, "z");
  EXPECT_EQ(project->tensors[2].role, TensorRole::output);
  EXPECT_EQ(project->tensors[2].tolerance.absolute, 1e-3);
  EXPECT_EQ(project->tensors[3].tolerance.absolute, 1e-5);
  EXPECT_EQ(project->tensors[4].role, TensorRole::stage);

  ASSERT_EQ(project->workloads.size(), 2u);
  EXPECT_EQ(project->workloads[0].name, "zero");
  EXPECT_EQ(project->workloads[0].values, (Values{{"n", 1}, {"D", 64}, {"causal", 1}, {"scale", 0.5}}));
  EXPECT_EQ(project->workloads[1].values.at("causal"), 0);

  ASSERT_EQ(project->instances.size(), 1u);
  EXPECT_EQ(project->instances[0].grid_y, "2");
  EXPECT_EQ(project->instances[0].block_x, "128");
  EXPECT_EQ(project->instances[0].block_z, "1");
  EXPECT_EQ(project->instances[0].max_spill_bytes, 8);
  EXPECT_EQ(project->cuda_device, "h100");
  EXPECT_EQ(project->random_workloads, 3);
  EXPECT_EQ(project->hard_values, (std::vector<std::string>{"nan", "zero"}));
  EXPECT_EQ(project->thresholds.ladder, (std::vector<double>{0.25, 0.5, 1, 2}));
  EXPECT_EQ(project->thresholds.least_gain.at("tuning"), 0.05);
  EXPECT_EQ(project->thresholds.least_gain.at("memory"), 0.1);
  EXPECT_EQ(project->thresholds.max_iterations, 5);
  EXPECT_EQ(project->cost.machine_per_hour, 0.71);
  EXPECT_EQ(project->machine.status, "true");
  EXPECT_EQ(project->hypotheses.at(0).fix, "turn it round");
  EXPECT_EQ(project->instances[0].when, "1");
  EXPECT_EQ(project->tensors[5].role, TensorRole::scratch);
  EXPECT_FALSE(project->tensors[5].zeroed);
  EXPECT_TRUE(project->tensors[6].zeroed);

  ASSERT_EQ(project->tunables.size(), 3u);
  EXPECT_EQ(project->tunables[0].choices, (std::vector<double>{16, 32, 64}));
  EXPECT_EQ(project->tunables[0].counter, "launch__grid_size");
  EXPECT_EQ(project->tunables[1].choices, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(project->tunables[1].phase, "tuning");
  EXPECT_TRUE(project->tunables[2].is_boolean);
  ASSERT_EQ(project->tunable_rules.size(), 2u);
  EXPECT_EQ(project->tunable_rules[0].key, "tunables.stages.requires");
  EXPECT_EQ(project->tunable_rules[1].because, "one buffer cannot be filled while it is read");
  EXPECT_EQ(project->point, (Values{{"rows", 64}, {"stages", 1}, {"async", 0}}));
}

// One mistake each: in the good file `from` becomes `to`.
struct Mistake {
  const char* name;
  const char* from;
  const char* to;
};

constexpr Mistake mistakes[] = {
    {"not_toml", "name = \"demo\"", "name = demo"},
    {"same_key_twice", "description = \"every table once\"", "name = \"again\""},
    {"name_missing", "name = \"demo\"", ""},
    {"name_of_blanks", "name = \"demo\"", "name = \"my kernel\""},
    {"unknown_key_with_a_near_one", "call_limit_seconds", "call_limit_second"},
    {"unknown_table_with_a_near_one", "[thresholds]", "[treshold]"},
    {"unknown_key_like_nothing", "[cost]", "[cost]\nzebra = 1"},
    {"text_where_a_number_is_due", "machine_per_hour = 0.71", "machine_per_hour = \"0.71\""},
    {"number_where_a_text_is_due", "status = \"true\"", "status = 1"},
    {"below_the_range", "random_workloads = 3", "random_workloads = -1"},
    {"above_the_range", "max_iterations = 5", "max_iterations = 21"},
    {"not_a_number", "max_minutes = 30", "max_minutes = nan"},
    {"float_where_an_integer_is_due", "max_iterations = 5", "max_iterations = 2.5"},
    {"not_one_of_the_allowed", "init = \"uniform\"", "init = \"unifrm\""},
    {"list_element_not_allowed", "hard_values = [\"nan\", \"zero\"]", "hard_values = [\"nan\", \"zeros\"]"},
    {"required_table_missing", "[[cuda.instances]]\nname = \"k<float, 64>\"\n", "[[cuda.instances]]\n"},
    {"empty_list", "sources = [\"a.cu\", \"b.cu\"]", "sources = []"},
    {"workloads_empty", "zero = { n = 1 }\nbig = { n = 1000, D = 128, causal = false }", ""},
    {"callable_without_function", "kernel = \"kernel.cpp:run\"", "kernel = \"kernel.cpp\""},
    {"callable_of_unknown_kind", "baseline.cpp:naive", "baseline.rs:naive"},
    {"callable_with_a_bad_function", "baseline.cpp:naive", "baseline.cpp:naive()"},
    {"kernel_in_cuda", "kernel = \"kernel.cpp:run\"", "kernel = \"kernel.cu:run\""},
    {"torch_tensors_in_cpp", "kernel = \"kernel.cpp:run\"",
     "kernel = { call = \"kernel.cpp:run\", tensors = \"torch\" }"},
    {"tensors_of_unknown_kind", "kernel = \"kernel.cpp:run\"",
     "kernel = { call = \"kernel.py:run\", tensors = \"jax\" }"},
    {"tensor_of_unknown_type", "\"f16[n, D]\"", "\"f15[n, D]\""},
    {"tensor_without_shape", "\"f16[n, D]\"", "\"f16\""},
    {"tensor_of_rank_9", "\"f16[n, D]\"", "\"f16[n,1,1,1,1,1,1,1,1]\""},
    {"tensor_with_an_empty_axis", "\"f16[n, D]\"", "\"f16[n, ]\""},
    {"shape_with_unknown_parameter", "\"f16[n, D]\"", "\"f16[n, E]\""},
    {"shape_in_a_table_with_unknown_parameter", "bf16[n, ceil_div(D, 2)]", "bf16[n, ceil_div(d, 2)]"},
    {"shape_not_whole", "bf16[n, ceil_div(D, 2)]", "bf16[n, n / 2]"},
    {"shape_negative_for_a_random_workload", "\"f16[n, D]\"", "\"f16[n - 1, D]\""},
    {"shape_absurd", "\"f16[n, D]\"", "\"f16[n * 1e9, D]\""},
    {"strides_too_few", "stride = [\"D\", 1]", "stride = [\"D\"]"},
    {"name_used_twice", "w = \"f32[n]\"", "x = \"f32[n]\""},
    {"name_of_a_parameter", "w = \"f32[n]\"", "scale = \"f32[n]\""},
    {"name_with_a_hyphen", "w = \"f32[n]\"", "my-output = \"f32[n]\""},
    {"workload_with_unknown_parameter", "big = { n = 1000", "big = { N = 1000"},
    {"workload_outside_the_choices", "D = 128", "D = 96"},
    {"default_outside_the_choices", "default = true, choices = [false, true]", "default = true, choices = [false]"},
    {"range_reversed", "range = [0, 100]", "range = [100, 0]"},
    {"range_of_three", "range = [0, 100]", "range = [0, 50, 100]"},
    {"choices_and_range", "choices = [64, 128]", "choices = [64, 128], range = [0, 9]"},
    {"parameter_without_value", "choices = [64, 128]", ""},
    {"biggest_workload_first", "zero = { n = 1 }", "zero = { n = 5000 }"},
    {"small_is_no_workload", "small = \"zero\"", "small = \"zeros\""},
    {"ladder_falls", "ladder = [0.25, 0.5, 1, 2]", "ladder = [0.25, 0.5, 2, 1]"},
    {"ladder_of_two", "ladder = [0.25, 0.5, 1, 2]", "ladder = [0.5, 1]"},
    {"instance_in_no_source", "source = \"b.cu\"", "source = \"c.cu\""},
    {"instance_whose_source_is_open", "source = \"b.cu\"\n", ""},
    {"grid_of_four_axes", "grid = [\"ceil_div(n, 32)\", 2]", "grid = [1, 2, 3, 4]"},
    {"grid_is_zero", "grid = [\"ceil_div(n, 32)\", 2]", "grid = \"floor_div(n, 32)\""},
    {"grid_does_not_parse", "grid = [\"ceil_div(n, 32)\", 2]", "grid = [1, \"ceil_div(n 32)\"]"},
    {"architecture_unknown", "\"sm_90a\"", "\"ada\""},
    {"hypothesis_without_fix", "fix = \"turn it round\"", ""},
    {"tunable_without_domain", "range = [1, 3], requires", "requires"},
    {"tunable_with_two_domains", "range = [1, 3], requires", "range = [1, 3], choices = [1], requires"},
    {"tunable_range_of_numbers", "range = [1, 3]", "range = [1, 3.5]"},
    {"tunable_range_too_wide", "range = [1, 3]", "range = [1, 30000]"},
    {"tunable_choice_not_whole", "choices = [16, 32, 64]", "choices = [16, 32.5, 64]"},
    {"tunable_choices_of_two_kinds", "choices = [false, true], phase", "choices = [false, 1], phase"},
    {"tunable_choice_twice", "choices = [16, 32, 64]", "choices = [16, 64, 64]"},
    {"tunable_default_outside", "default = 64, phase", "default = 48, phase"},
    {"tunable_default_of_another_kind", "default = 64, phase", "default = true, phase"},
    {"tunable_phase_unknown", "phase = \"parallelism\"", "phase = \"paralelism\""},
    {"tunable_is_a_number", "async = { choices = [false, true], phase = \"memory\" }", "async = 1"},
    {"tunable_named_as_a_parameter", "scale = 0.5", "async = 0.5"},
    {"tunables_of_one_macro", "async = { choices", "ROWS = { choices"},
    {"tunable_rule_with_a_parameter", "requires = \"stages < 3 or rows < 64\"", "requires = \"stages < n\""},
    {"tunable_rule_with_unknown_name", "when = \"stages > 1\"", "when = \"stage > 1\""},
    {"tunable_rule_without_reason", "because = \"one buffer cannot be filled while it is read\"", ""},
    {"tunable_defaults_break_a_rule", "when = \"stages > 1\"", "when = \"stages > 0\""},
    {"scratch_that_is_judged", "zeroed = true }", "zeroed = true, absolute = 1 }"},
    {"scratch_of_unknown_size", "f32[stages, n]", "f32[stage, n]"},
    {"input_whose_shape_is_tuned", "\"f16[n, D]\"", "\"f16[n, rows]\""},
    {"when_does_not_parse", "block = 128", "block = 128\nwhen = \"n >\""},
    {"nothing_is_launched", "block = 128", "block = 128\nwhen = \"n > 1\""},
    {"instance_named_by_no_tunable", "name = \"k<float, 64>\"", "name = \"k<float, {row}>\""},
};

std::string broken(const Mistake& mistake) {
  std::string text = good;
  const std::size_t at = text.find(mistake.from);
  if (at == std::string::npos) return "";
  return text.replace(at, std::string(mistake.from).size(), mistake.to);
}

// CUDADENT_REBASE=1 writes the messages as they are now; read the difference before it is committed.
TEST(LoadProject, EveryMistakeIsToldWhereWhatAndHowToFixIt) {
  const fs::path golden = fs::path(__FILE__).parent_path() / "load_test.golden";
  std::string told;
  for (const Mistake& mistake : mistakes) {
    const std::string text = broken(mistake);
    ASSERT_FALSE(text.empty()) << mistake.name << " changes nothing";
    const Result<Project> project = parse_project(text, "cudadent.toml");
    ASSERT_FALSE(project) << mistake.name << " is accepted";
    EXPECT_GT(project.error().line, 0) << mistake.name;
    EXPECT_GT(project.error().column, 0) << mistake.name;
    told += std::string(mistake.name) + "\n  " + project.error().to_string() + "\n";
  }
  if (std::getenv("CUDADENT_REBASE")) std::ofstream(golden) << told;
  std::ifstream stream(golden);
  const std::string expected{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(told, expected) << "if the new messages are meant: CUDADENT_REBASE=1 load_test";
}

// Mistakes of all kinds in one file: a key, a value's range, a type, an expression, a name.
TEST(LoadProject, AllMistakesAreToldAtOnce) {
  std::string text = good;
  const auto change = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  change("description = ", "descriptoin = ");
  change("x = \"f16[n, D]\"", "x = \"f16[n, E]\"");
  change("w = \"f32[n]\"", "w = \"f31[n]\"");
  change("machine_per_hour = 0.71", "machine_per_hour = \"much\"");
  const Result<Project> project = parse_project(text, "cudadent.toml");
  ASSERT_FALSE(project);
  std::vector<std::string> keys{project.error().key};
  std::vector<int> lines{project.error().line};
  for (const Diagnostic& other : project.error().more) {
    keys.push_back(other.key);
    lines.push_back(other.line);
    EXPECT_EQ(other.file, "cudadent.toml");
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"descriptoin", "inputs.x", "outputs.w", "cost.machine_per_hour"}))
      << project.error().to_string();
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end())) << project.error().to_string();
  EXPECT_EQ(project.error().to_string().find('\n'), project.error().to_string().find("\ncudadent.toml:"))
      << "a line each";
}

class Scaffold : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/cudadent_scaffold_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string directory_;
};

TEST_F(Scaffold, EveryTemplateLoadsUnderItsNewName) {
  ASSERT_EQ(project_templates().size(), 3u);
  for (const Template& each : project_templates()) {
    const std::string directory = directory_ + "/" + std::string(each.name);
    const auto written = make_project(directory, "mine", std::string(each.name));
    ASSERT_TRUE(written) << written.error().to_string();
    const Result<Project> project = load_project(directory);
    ASSERT_TRUE(project) << project.error().to_string();
    EXPECT_EQ(project->name, "mine");
    EXPECT_EQ(project->directory, directory);
    EXPECT_FALSE(project->instances.empty()) << "the example has no CUDA twin";
  }
}

TEST_F(Scaffold, NeverOverwrites) {
  std::ofstream(directory_ + "/kernel.cpp") << "precious";
  const auto written = make_project(directory_, "mine", "vector_add");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("kernel.cpp is already there"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory_ + "/cudadent.toml"));
}

TEST_F(Scaffold, RefusesWhatItDoesNotKnow) {
  const auto unknown = make_project(directory_, "mine", "soft_max");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().fix.find("'softmax'"), std::string::npos);
  EXPECT_FALSE(make_project(directory_, "my kernel", "softmax"));
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(Scaffold, MissingFilesAreNamedWithTheirKey) {
  ASSERT_TRUE(make_project(directory_, "mine", "vector_add"));
  fs::remove(directory_ + "/kernel.cu");
  const Result<Project> project = load_project(directory_ + "/cudadent.toml");
  ASSERT_FALSE(project);
  EXPECT_EQ(project.error().key, "cuda.sources[0]");
  EXPECT_NE(project.error().message.find("kernel.cu"), std::string::npos);
  const Result<Project> none = load_project(directory_ + "/nowhere");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().fix.find("cudadent new"), std::string::npos);
}

}  // namespace
}  // namespace flashmoe::workflow
