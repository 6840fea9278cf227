#include "workflow/project/keys.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace flashmoe::workflow {
namespace {

using T = KeyType;
constexpr double inf = std::numeric_limits<double>::infinity();

// Reference and baseline are declared alike; the kernel too.
constexpr std::string_view call_text =
    "Who computes: \"kernel.cpp:function\" (C++), \"kernel.cu:function\" (CUDA) or \"file.py:function\" (Python).";
constexpr std::string_view sources_text = "Further C++ files to compile and link with it.";
constexpr std::string_view libraries_text = "Libraries to link with; \"flashmoe\" is the attention library.";
constexpr std::string_view tensors_text =
    "What a Python function gets its tensors as; torch has bf16, in NumPy it is uint16. Default: numpy.";
constexpr std::string_view absolute_text =
    "Allowed: |got - expected| <= absolute + relative * |expected|. Default by type and size (RMS).";

std::vector<KeySpec> make_table() {
  return {
      {"name", T::text, true, "What the project is called: letters, digits, '_', '-' and '.'."},
      {"description", T::text, false, "One line for people."},

      {"kernel", T::callable, false,
       "The CPU entry under test, \"kernel.cpp:function\" (cudadent/kernel.h) or \"kernel.py:function\". Not needed "
       "beside [cuda]."},
      {"kernel.call", T::callable, true,
       "The CPU entry under test, \"kernel.cpp:function\" (cudadent/kernel.h) or \"kernel.py:function\"."},
      {"kernel.name", T::text, false, "What reports call it. Default: its function."},
      {"kernel.sources", T::text_list, false, sources_text},
      {"kernel.libraries", T::text_list, false, libraries_text},
      {"kernel.tensors", T::text, false, tensors_text, "", {"numpy", "torch"}},

      {"reference", T::callable, true, "What is right, computed simply and in more precision; same forms as kernel."},
      {"reference.call", T::callable, true, call_text},
      {"reference.name", T::text, false, "What reports call it. Default: its function."},
      {"reference.sources", T::text_list, false, sources_text},
      {"reference.libraries", T::text_list, false, libraries_text},
      {"reference.tensors", T::text, false, tensors_text, "", {"numpy", "torch"}},

      {"baseline", T::callable, false,
       "What to beat; the performance gate needs it. A Python function make_* returns a callable that is timed alone."},
      {"baseline.call", T::callable, true, call_text},
      {"baseline.name", T::text, false, "What reports call it, such as \"torch SDPA\". Default: its function."},
      {"baseline.sources", T::text_list, false, sources_text},
      {"baseline.libraries", T::text_list, false, libraries_text},
      {"baseline.tensors", T::text, false, tensors_text, "", {"numpy", "torch"}},

      {"torch_baseline", T::callable, false,
       "What to beat on a card (--device cuda:0): a Python function over torch tensors that lie there. Default: "
       "baseline, "
       "where that has torch tensors."},
      {"torch_baseline.call", T::callable, true, call_text},
      {"torch_baseline.name", T::text, false, "What reports call it. Default: its function."},
      {"torch_baseline.tensors", T::text, false, tensors_text, "", {"torch"}},

      {"params", T::named, false, "The parameters of the problem: sizes and switches that expressions may use."},
      {"params.*", T::scalar, false, "A fixed value, or a table with default and domain."},
      {"params.*.default", T::scalar, false,
       "Value where a workload does not say. Default: the first choice, or the range's least."},
      {"params.*.choices", T::scalar_list, false,
       "The whole domain: random workloads draw from it, others are refused."},
      {"params.*.range", T::number_list, false, "[least, largest] integer that random workloads draw."},

      {"inputs", T::named, true, "Tensors that the kernel reads, in the order it gets them."},
      {"inputs.*", T::tensor, false, "Type and shape, \"f32[rows, cols]\", or a table."},
      {"inputs.*.type", T::tensor, true,
       "Element type (f64, f32, f16, bf16, i32, i64, u8) and shape: \"f16[B, H, S, D]\"."},
      {"inputs.*.stride", T::expressions, false, "Elements between neighbours, one per axis. Default: row-major."},
      {"inputs.*.init",
       T::text,
       false,
       "How values are made from the seed.",
       "\"normal\"",
       {"normal", "uniform", "zeros", "ones", "arange"}},

      {"outputs", T::named, true, "Tensors that the kernel writes."},
      {"outputs.*", T::tensor, false, "Type and shape, \"f32[n]\", or a table."},
      {"outputs.*.type", T::tensor, true, "Element type and shape."},
      {"outputs.*.stride", T::expressions, false, "Elements between neighbours, one per axis. Default: row-major."},
      {"outputs.*.absolute", T::number, false, absolute_text, "", {}, 0, inf},
      {"outputs.*.relative", T::number, false, absolute_text, "", {}, 0, inf},

      {"stages", T::named, false, "Intermediate results the reference can show: where a wrong result first diverges."},
      {"stages.*", T::tensor, false, "Type and shape, or a table."},
      {"stages.*.type", T::tensor, true, "Element type and shape."},
      {"stages.*.stride", T::expressions, false, "Elements between neighbours, one per axis. Default: row-major."},
      {"stages.*.absolute", T::number, false, absolute_text, "", {}, 0, inf},
      {"stages.*.relative", T::number, false, absolute_text, "", {}, 0, inf},

      {"scratch", T::named, false,
       "The kernel's own between its launches: partial results, semaphores. Nobody judges it."},
      {"scratch.*", T::tensor, false, "Type and shape (over parameters and tunables), or a table."},
      {"scratch.*.type", T::tensor, true, "Element type and shape; the shape may use tunables."},
      {"scratch.*.zeroed", T::boolean, false, "Zeros before every call; else it is poisoned.", "false"},

      {"workloads", T::named, true, "Problems to check and time, the smallest first: name = { parameter = value }."},
      {"workloads.*", T::named, true, "Values of parameters; the others have their default."},
      {"workloads.*.*", T::scalar, false, "Value of this parameter."},

      {"tunables", T::named, false,
       "What the kernel leaves open; point.toml beside this file holds the current values. The kernel's compiler gets "
       "them "
       "as -DNAME=value (upper case), launch geometry, arguments and scratch shapes as names."},
      {"tunables.*", T::group, false, "Its domain (choices or range), and what changing it is for."},
      {"tunables.*.choices", T::scalar_list, false, "The whole domain: integers, or false and true."},
      {"tunables.*.range", T::number_list, false, "[least, largest]: all integers between are the domain."},
      {"tunables.*.default", T::scalar, false, "Where point.toml does not say. Default: the first of the domain."},
      {"tunables.*.phase",
       T::text,
       false,
       "What changing it is for.",
       "\"tuning\"",
       {"parallelism", "memory", "compute", "tuning"}},
      {"tunables.*.counter", T::text, false, "The counter that must move when it is changed."},
      {"tunables.*.on", T::text, false, "Which side of the kernel it is of. Default: both.", "", {"cpu", "cuda"}},
      {"tunables.*.requires", T::expression, false, "Holds at every legal point: an expression over the tunables."},
      {"tunable_rules", T::group_list, false, "What holds between tunables; a point that breaks one is refused."},
      {"tunable_rules.[]", T::group, false, ""},
      {"tunable_rules.[].when", T::expression, false, "Where the rule applies: an expression over the tunables.", "1"},
      {"tunable_rules.[].then", T::expression, true, "What holds there."},
      {"tunable_rules.[].because", T::text, true, "Why, in words."},

      {"cpu", T::group, false, "How the C++ sources are compiled."},
      {"cpu.include", T::text_list, false, "Include directories, relative to the project."},
      {"cpu.flags", T::text_list, false,
       "Further compiler flags, after -std=c++20 -O2 -fPIC; such as -O3, -march=native."},

      {"cuda", T::group, false, "The CUDA twin: what the build gate compiles and checks without a GPU."},
      {"cuda.sources", T::text_list, true, "CUDA files, relative to the project."},
      {"cuda.architectures", T::text_list, false, "Each instance is compiled for each of them.", "[\"sm_89\"]"},
      {"cuda.device", T::text, false, "Whose limits hold (cudadent doctor lists the devices).", "\"l4\""},
      {"cuda.flags", T::text_list, false, "Further nvcc flags."},
      {"cuda.baseline", T::text, false,
       "What to beat on a virtual GPU: a directory with a project of the same inputs and outputs. Both are predicted."},
      {"cuda.launch", T::text_list, false,
       "Instances that make up one call on a GPU, in this order. Default: the first one."},
      {"cuda.instances", T::group_list, true, "The kernels that must be in every cubin, with their launch geometry."},
      {"cuda.instances.[]", T::group, false, ""},
      {"cuda.instances.[].name", T::text, true,
       "As C++ writes it: \"softmax_kernel<float, 256>\", or the extern \"C\" name; {rows} is the tunable's value."},
      {"cuda.instances.[].source", T::text, false, "One of cuda.sources. Default: the only one."},
      {"cuda.instances.[].grid", T::expressions, true, "Blocks in x, y, z: one to three expressions."},
      {"cuda.instances.[].block", T::expressions, true, "Threads in x, y, z: one to three expressions."},
      {"cuda.instances.[].shared_bytes", T::expression, false, "Dynamic shared memory of a block, in bytes.", "0"},
      {"cuda.instances.[].args", T::text_list, false,
       "Arguments of the kernel: a tensor's name, or a type (i32, i64, u8, f32, f64) and an expression: \"i64 cols\"."},
      {"cuda.instances.[].when", T::expression, false,
       "Launched only where this is not 0: an expression over parameters and tunables.", "1"},
      {"cuda.instances.[].max_spill_bytes",
       T::integer,
       false,
       "Spilled bytes per thread that are accepted.",
       "0",
       {},
       0,
       65536},
      {"cuda.instances.[].min_occupancy", T::number, false, "Least share of the SM's warps, 0 to 1.", "0.0", {}, 0, 1},

      {"correctness", T::group, false, "What the correctness gate does after the declared workloads."},
      {"correctness.random_workloads",
       T::integer,
       false,
       "Random shapes drawn from the parameters' domains.",
       "8",
       {},
       0,
       1000},
      {"correctness.hard_values",
       T::text_list,
       false,
       "Values put into floating-point inputs.",
       "[\"denormal\", \"inf\", \"huge\", \"nan\", \"zero\"]",
       {"denormal", "inf", "huge", "nan", "zero"}},
      {"correctness.call_limit_seconds",
       T::number,
       false,
       "A call that takes longer hangs and is killed.",
       "10",
       {},
       0.01,
       3600},

      {"thresholds", T::group, false, "When to stop, when it is a success, what a change must gain."},
      {"thresholds.ladder",
       T::number_list,
       false,
       "Speed against the baseline: stop below, success, target, stretch.",
       "[0.5, 1.0, 1.2, 1.5]",
       {},
       0.001,
       1000},
      {"thresholds.small", T::text, false,
       "Workload of the first performance check. Default: the one after the tiny one."},
      {"thresholds.target", T::text, false, "Workload of the verdict. Default: the last."},
      {"thresholds.baseline_drift", T::number, false, "A recorded baseline may differ by this share.", "0.1", {}, 0, 1},
      {"thresholds.least_gain", T::group, false, "Least gain worth keeping, per phase, as ratio - 1."},
      {"thresholds.least_gain.parallelism", T::number, false, "More blocks, splits, threads.", "0.2", {}, 0, 10},
      {"thresholds.least_gain.memory", T::number, false, "Layout, vector width, staging.", "0.1", {}, 0, 10},
      {"thresholds.least_gain.compute", T::number, false, "Instructions and their schedule.", "0.1", {}, 0, 10},
      {"thresholds.least_gain.tuning", T::number, false, "Parameters only.", "0.02", {}, 0, 10},
      {"thresholds.max_iterations", T::integer, false, "Candidates of one optimisation run.", "3", {}, 1, 20},
      {"thresholds.max_minutes", T::number, false, "Time of one optimisation run.", "60", {}, 1, 10080},

      {"cost", T::group, false, "What an hour costs, in dollars: reports and stopping rules count it."},
      {"cost.machine_per_hour", T::number, false, "The machine.", "0", {}, 0, 100000},
      {"cost.agent_per_hour", T::number, false, "The person or agent.", "0", {}, 0, 100000},

      {"machine", T::group, false, "Your own commands for a machine that is rented by the hour; run by sh."},
      {"machine.status", T::text, false, "Exits 0 when the machine runs; asked before steps over 60 s."},
      {"machine.start", T::text, false, "Starts it."},
      {"machine.stop", T::text, false, "Stops it."},

      {"hypotheses", T::group_list, false,
       "Ways to be wrong that the reference can compute on purpose, for the diagnosis."},
      {"hypotheses.[]", T::group, false, ""},
      {"hypotheses.[].variant", T::text, true, "Passed to the reference as call->variant."},
      {"hypotheses.[].says", T::text, true, "What is wrong when the kernel's result matches this variant."},
      {"hypotheses.[].fix", T::text, true, "What to change then."},
  };
}

KeyNode make_tree() {
  static const KeySpec root_spec{"", T::group, true, "A kernel project of cudadent: cudadent.toml."};
  KeyNode root{"", &root_spec};
  for (const KeySpec& spec : key_table()) {
    KeyNode* at = &root;
    std::string_view rest = spec.path;
    for (;;) {
      const std::size_t dot = rest.find('.');
      const std::string_view name = rest.substr(0, dot);
      auto found =
          std::find_if(at->children.begin(), at->children.end(), [&](const KeyNode& n) { return n.name == name; });
      if (found == at->children.end()) {
        at->children.push_back({std::string(name), nullptr});
        found = at->children.end() - 1;
      }
      at = &*found;
      if (dot == std::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    at->spec = &spec;
  }
  return root;
}

std::string_view name_of(KeyType type) {
  switch (type) {
    case T::group:
    case T::named:
      return "a table";
    case T::group_list:
      return "an array of tables";
    case T::text:
      return "a string";
    case T::text_list:
      return "an array of strings";
    case T::boolean:
      return "true or false";
    case T::integer:
      return "an integer";
    case T::number:
      return "a number";
    case T::number_list:
      return "an array of numbers";
    case T::scalar:
      return "a number or true or false";
    case T::scalar_list:
      return "an array of numbers or booleans";
    case T::expression:
      return "an integer or an expression in a string";
    case T::expressions:
      return "an expression or an array of them";
    case T::callable:
      return "a string \"file:function\"";
    case T::tensor:
      return "a string \"type[shape]\"";
  }
  return "";
}

}  // namespace

const KeyNode* KeyNode::child(std::string_view key) const {
  for (const KeyNode& node : children) {
    if (node.name == key) return &node;
  }
  return nullptr;
}

const std::vector<KeySpec>& key_table() {
  static const std::vector<KeySpec> table = make_table();
  return table;
}

const KeyNode& key_tree() {
  static const KeyNode tree = make_tree();
  return tree;
}

std::string expected_by(const KeyNode& node) {
  const KeySpec& spec = *node.spec;
  std::string text(name_of(spec.type));
  const bool has_long_form =
      !node.children.empty() && spec.type != T::group && spec.type != T::named && spec.type != T::group_list;
  if (has_long_form) text += " or a table";
  if (!spec.allowed.empty()) text += fmt::format(" of: {}", fmt::join(spec.allowed, ", "));
  if (spec.min > -inf && spec.max < inf) {
    text += fmt::format(" from {:g} to {:g}", spec.min, spec.max);
  } else if (spec.min > -inf) {
    text += fmt::format(" of at least {:g}", spec.min);
  }
  return text;
}

namespace {

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void add_rows(const KeyNode& node, const std::string& path, std::string& text) {
  for (const KeyNode& child : node.children) {
    const bool element = child.name == "[]";
    const std::string name = element ? path + "[]" : path.empty() ? child.name : path + "." + child.name;
    if (!element) {
      const KeySpec& spec = *child.spec;
      text +=
          fmt::format("| `{}`{} | {} | {} | {} |\n", name, spec.required ? " (required)" : "", expected_by(child),
                      spec.default_text.empty() ? "" : fmt::format("`{}`", spec.default_text), cell(spec.description));
    }
    add_rows(child, name, text);
  }
}

}  // namespace

std::string keys_markdown() {
  std::string text = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  add_rows(key_tree(), "", text);
  return text;
}

}  // namespace flashmoe::workflow
