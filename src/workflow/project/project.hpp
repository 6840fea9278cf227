// A kernel project: a directory with cudadent.toml. These are the values after reading and checking; load_project is
// the only way to get one. Text that is an expression over the workload's parameters ("B*H*S", "ceil_div(S, 64)")
// stays text here and is evaluated by `evaluate` per workload.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cudadent/kernel.h"
#include "support/result.hpp"

namespace flashmoe::workflow {

using Values = std::map<std::string, double>;  // parameters of one workload

enum class TensorRole {
  input,
  output,
  stage,   // an intermediate the kernel may write, for diagnosis
  scratch  // the kernel's own between its launches: partial results, semaphores; nobody judges it
};

struct Tolerance {
  double absolute = 0;  // |got - expected| <= absolute + relative * |expected|
  double relative = 0;
  bool by_size = false;  // `absolute` is a share of the expected tensor's size: judge.hpp
  bool operator==(const Tolerance&) const = default;
};

// Left out of a file: a few roundings of the type, whatever size the results have.
[[nodiscard]] Tolerance default_tolerance(cudadent_dtype dtype);

struct TensorSpec {
  std::string name;
  TensorRole role = TensorRole::input;
  cudadent_dtype dtype = CUDADENT_F32;
  std::vector<std::string> shape;   // expressions
  std::vector<std::string> stride;  // expressions in elements; empty: row-major
  std::string init = "normal";      // inputs: normal, uniform, zeros, ones, arange
  Tolerance tolerance;              // outputs and stages
  bool zeroed = false;              // scratch: before every call; else it is poisoned
  int line = 0;                     // where it is declared
};

struct ParamSpec {
  std::string name;
  double default_value = 0;
  std::vector<double> choices;  // the whole domain when not empty
  double min = 0, max = 0;      // else the integer range, for random shapes; min == max: fixed
  int line = 0;
};

// What the kernel leaves open. Values are integers; false and true are 0 and 1.
struct Tunable {
  std::string name{};
  std::vector<double> choices{};  // the whole domain, a range written out
  bool is_boolean = false;
  double default_value = 0;
  std::string phase = "tuning";  // of Thresholds::least_gain
  std::string counter{};         // the one that must move when this does; may be empty
  std::string on{};              // "cpu", "cuda": only that side of the kernel has it; empty: both
  int line = 0;
};

// What every legal point fulfils: where `when` holds, `then` does. Expressions over the tunables.
struct TunableRule {
  std::string key{};  // where it stands: "tunables.stages.requires", "tunable_rules[0]"
  std::string when = "1";
  std::string then{};
  std::string because{};  // for people; may be empty
  int line = 0;
};

struct Workload {
  std::string name;
  Values values;  // every parameter, defaults filled in
  int line = 0;
};

// One CUDA kernel that must be in every cubin.
struct CudaInstance {
  std::string name;    // as C++ writes it: "softmax_kernel<float, 256>", or the extern "C" name
  std::string source;  // one of sources.cuda
  std::string grid_x = "1", grid_y = "1", grid_z = "1";
  std::string block_x = "1", block_y = "1", block_z = "1";
  std::string dynamic_shared_bytes = "0";
  std::vector<std::string> args;  // a tensor's name, or a type and an expression: "i64 cols"
  std::string when = "1";         // launched where this is not 0
  std::int64_t max_spill_bytes = 0;
  double min_occupancy = 0;  // share of the SM's warps, 0..1
  int line = 0;
};

enum class CallableKind { none, cpp, cuda, python };

// Who computes: a C++ entry in a source file, a CUDA kernel, or a Python callable "file.py:function".
struct Callable {
  CallableKind kind = CallableKind::none;
  std::string name;                    // what people call it: "torch SDPA"
  std::string source;                  // file, relative to the project
  std::string entry;                   // symbol or function
  std::vector<std::string> sources;    // further C++ files
  std::vector<std::string> libraries;  // to link with; "flashmoe" is this project's own library
  bool torch_tensors = false;          // Python: its tensors are torch's, else NumPy's arrays
  int line = 0;
};

// A way to be wrong that the reference can compute on purpose.
struct Hypothesis {
  std::string variant;  // passed to the reference
  std::string says;     // "the causal mask is shifted by one key"
  std::string fix;      // "compare key <= query + (Skv - Sq)"
};

struct Thresholds {
  std::vector<double> ladder{0.5, 1.0, 1.2, 1.5};  // stop below the first; the second is success, then target, stretch
  std::string small_workload;
  std::string target_workload;
  double baseline_drift = 0.10;
  std::map<std::string, double> least_gain{
      {"parallelism", 0.20}, {"memory", 0.10}, {"compute", 0.10}, {"tuning", 0.02}};
  int max_iterations = 3;
  double max_minutes = 60;
};

struct Cost {
  double machine_per_hour = 0;  // $
  double agent_per_hour = 0;
};

struct MachineCommands {
  std::string status, start, stop;  // the user's own; empty: none
};

struct Project {
  std::string directory;  // absolute
  std::string file;       // absolute path of cudadent.toml
  std::string name;
  std::string description;
  std::vector<std::string> include_directories;
  std::vector<std::string> cpu_flags;
  std::vector<std::string> cuda_sources;
  std::vector<std::string> cuda_flags;
  std::vector<std::string> cuda_architectures;  // "sm_89"
  std::vector<std::string> cuda_launch;         // instances that make up one call, in this order
  std::string cuda_device = "l4";               // whose limits the build gate checks
  std::string cuda_baseline{};                  // directory of the project to beat where times are predicted
  Callable kernel;                              // the CPU entry under test; may be absent beside [cuda]
  Callable reference;
  Callable baseline;
  Callable torch_baseline;  // what to beat on a card, in the user's own torch
  std::vector<TensorSpec> tensors;
  std::vector<ParamSpec> params;
  std::vector<Workload> workloads;  // tiny first
  std::vector<Tunable> tunables;
  std::vector<TunableRule> tunable_rules;
  Values point;  // a value for every tunable: what point.toml says, else the defaults
  std::vector<CudaInstance> instances;
  std::vector<Hypothesis> hypotheses;
  int random_workloads = 8;
  std::vector<std::string> hard_values{"denormal", "inf", "huge", "nan", "zero"};  // what the correctness gate injects
  double call_limit_seconds = 10;  // one call of the kernel; longer is a hang
  Thresholds thresholds;
  Cost cost;
  MachineCommands machine;
};

// nullptr: there is none of that name.
[[nodiscard]] const Workload* find_workload(const Project& project, const std::string& name);
// The one of the verdict: the project's target, else its last; nullptr when it has none at all.
[[nodiscard]] const Workload* target_workload(const Project& project);
// Their names, for people: "tiny, small, target".
[[nodiscard]] std::string workload_names(const Project& project);

// Reads and checks `path` (a directory or a cudadent.toml) and the point.toml beside it. Errors carry file, line,
// column and key.
[[nodiscard]] Result<Project> load_project(const std::string& path);

// The same from text, with `file` as its name; the files it names are not looked for.
[[nodiscard]] Result<Project> parse_project(const std::string& text, const std::string& file);

// An expression over the parameters: + - * / % (), comparisons, not, and, or, min, max, ceil_div,
// floor_div, pow2_ceil, if(c, a, b); integers stay exact or are refused. The error's column counts in the expression.
[[nodiscard]] Result<double> evaluate(const std::string& expression, const Values& values);

// "x" -> the tensor; "i64 cols" -> type and expression. nullopt: neither.
struct LaunchArgument {
  std::optional<std::size_t> tensor{};
  std::string type{};
  std::string expression{};
};
[[nodiscard]] std::optional<LaunchArgument> parse_argument(const Project& project, const std::string& text);

}  // namespace flashmoe::workflow
