#include "workflow/project/check_project.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "workflow/project/point.hpp"
#include "workflow/project/suggest.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

using Failure = std::optional<Diagnostic>;
constexpr double most_elements = 1e12;  // of one tensor: a typo, not a workload

const char* group_of(TensorRole role) {
  switch (role) {
    case TensorRole::input:
      return "inputs";
    case TensorRole::output:
      return "outputs";
    case TensorRole::stage:
      return "stages";
    case TensorRole::scratch:
      break;
  }
  return "scratch";
}

class Check {
 public:
  Check(const Project& project, const Locations& locations, Mistakes& mistakes)
      : project_(project), locations_(locations), mistakes_(mistakes) {}

  void all() {
    // Without its numbers nothing can be said about an expression.
    const bool has_numbers = !project_.workloads.empty() && !mistakes_.touch("params") &&
                             !mistakes_.touch("workloads") && !mistakes_.touch("tunables") &&
                             !mistakes_.touch("tunable_rules");
    names();
    if (has_numbers) {
      domains();
      expressions();
      const bool has_shapes = !mistakes_.touch("inputs") && !mistakes_.touch("outputs") && !mistakes_.touch("stages");
      if (has_shapes) tell(smallest_first());
    }
    architectures();
    tell(kernels());
    launches(has_numbers);
    thresholds();
    hypotheses();
  }

 private:
  void tell(Failure failure) {
    if (failure) failure->code = codes::project_value;
    mistakes_.add(std::move(failure));
  }

  void names() {
    const auto allowed = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    };
    if (project_.name.empty() || !std::all_of(project_.name.begin(), project_.name.end(), allowed)) {
      tell(locations_.error("name", fmt::format("is \"{}\"", project_.name), "use letters, digits, '_', '-' and '.'"));
    }
    std::map<std::string, std::string> used;  // name -> key
    for (const ParamSpec& param : project_.params) used[param.name] = "params." + param.name;
    const auto add = [&](const std::string& name, const std::string& key) {
      const auto [place, fresh] = used.emplace(name, key);
      if (fresh) return;
      tell(locations_.error(key,
                            fmt::format("'{}' is already the name of {} (line {})", name, place->second,
                                        locations_.of(place->second).line),
                            "rename one of them"));
    };
    for (const Tunable& tunable : project_.tunables) add(tunable.name, "tunables." + tunable.name);
    for (const TensorSpec& tensor : project_.tensors) {
      add(tensor.name, fmt::format("{}.{}", group_of(tensor.role), tensor.name));
    }
  }

  Failure in_domain(const ParamSpec& param, double value, const std::string& key) const {
    if (param.choices.empty() || std::find(param.choices.begin(), param.choices.end(), value) != param.choices.end())
      return {};
    return locations_.error(
        key, fmt::format("is {:g}; the choices of '{}' are {:g}", value, param.name, fmt::join(param.choices, ", ")),
        fmt::format("add it to params.{}.choices, or use one of them", param.name));
  }

  void domains() {
    for (const ParamSpec& param : project_.params) {
      tell(in_domain(param, param.default_value, fmt::format("params.{}.default", param.name)));
      for (const Workload& workload : project_.workloads) {
        const std::string key = fmt::format("workloads.{}.{}", workload.name, param.name);
        if (locations_.has(key)) tell(in_domain(param, workload.values.at(param.name), key));
      }
    }
  }

  // ---- expressions: for every workload, and where the parameters' domains end

  struct Case {
    std::string name;  // "workload 'tiny'"
    Values values;
  };

  std::vector<Case> cases() const {
    std::vector<Case> cases;
    for (const Workload& workload : project_.workloads)
      cases.push_back({"workload '" + workload.name + "'", workload.values});
    Case least{"a random workload (every parameter at its least)", {}};
    Case largest{"a random workload (every parameter at its largest)", {}};
    for (const ParamSpec& param : project_.params) {
      least.values[param.name] = param.min;
      largest.values[param.name] = param.max;
    }
    if (project_.random_workloads > 0) {
      cases.push_back(std::move(least));
      cases.push_back(std::move(largest));
    }
    return cases;
  }

  // `offset` is where the expression begins inside the string at `key`.
  Failure integer(const std::string& text, const Case& at, double least, const std::string& key, int offset) const {
    const Result<double> value = evaluate(text, at.values);
    if (!value) {
      const Diagnostic& error = value.error();
      return locations_.error(key, error.message, error.fix, offset + error.column - 1);
    }
    if (std::floor(*value) == *value && *value >= least) return {};
    return locations_.error(key,
                            fmt::format("\"{}\" is {:g} in {}; it must be an integer of at least {:g}",
                                        text.substr(text.find_first_not_of(' ')), *value, at.name, least),
                            "change the expression, the workload or the parameter's range", offset);
  }

  void expressions() {
    for (const Case& at : cases()) {
      // The problem is the same at every point; what the kernel needs on the way is not.
      const Case at_point{at.name, with_point(project_, at.values)};
      for (const TensorSpec& tensor : project_.tensors) {
        tell(shape(tensor, tensor.role == TensorRole::scratch ? at_point : at));
      }
    }
    // A launch is made for declared workloads only.
    for (const Workload& workload : project_.workloads) {
      const Case at{"workload '" + workload.name + "'", with_point(project_, workload.values)};
      for (std::size_t i = 0; i < project_.instances.size(); ++i) {
        tell(launched(project_.instances[i], fmt::format("cuda.instances[{}]", i), at));
      }
    }
    if (!mistakes_.touch("cuda")) tell(something_is_launched());
  }

  Failure launched(const CudaInstance& instance, const std::string& key, const Case& at) const {
    const Result<double> when = evaluate(instance.when, at.values);
    if (!when) {
      return locations_.error(key + ".when", when.error().message, when.error().fix, when.error().column - 1);
    }
    return *when == 0 ? Failure{} : geometry(instance, key, at);
  }

  Failure something_is_launched() const {
    if (project_.instances.empty()) return {};
    for (const Workload& workload : project_.workloads) {
      const Values values = with_point(project_, workload.values);
      const auto is_launched = [&](const CudaInstance& instance) {
        const auto& names = project_.cuda_launch;
        return std::find(names.begin(), names.end(), instance.name) != names.end() &&
               *evaluate(instance.when, values) != 0;
      };
      if (std::any_of(project_.instances.begin(), project_.instances.end(), is_launched)) continue;
      return locations_.error("cuda.launch",
                              fmt::format("nothing is launched in workload '{}': no `when` holds", workload.name),
                              "let one of the instances be launched for every workload");
    }
    return {};
  }

  Failure shape(const TensorSpec& tensor, const Case& at) const {
    const std::string key = fmt::format("{}.{}", group_of(tensor.role), tensor.name);
    const std::string where = locations_.has(key + ".type") ? key + ".type" : key;
    double elements = 1;
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      if (Failure f = integer(tensor.shape[axis], at, 0, where, offset_of_axis(tensor, axis))) return f;
      elements *= *evaluate(tensor.shape[axis], at.values);
    }
    if (elements > most_elements) {
      return locations_.error(
          key, fmt::format("has {:g} elements in {}; at most {:g} are allowed", elements, at.name, most_elements));
    }
    if (tensor.stride.empty()) return {};
    if (tensor.stride.size() != tensor.shape.size()) {
      return locations_.error(key + ".stride",
                              fmt::format("has {} entries for {} axes", tensor.stride.size(), tensor.shape.size()),
                              "write one stride per axis, in elements");
    }
    for (std::size_t axis = 0; axis < tensor.stride.size(); ++axis) {
      if (Failure f = integer(tensor.stride[axis], at, 0, fmt::format("{}.stride[{}]", key, axis), 0)) return f;
    }
    return {};
  }

  static int offset_of_axis(const TensorSpec& tensor, std::size_t axis) {
    static const std::map<int, int> letters{{CUDADENT_BF16, 4}, {CUDADENT_U8, 2}};
    const auto found = letters.find(tensor.dtype);
    int offset = (found == letters.end() ? 3 : found->second) + 1;
    for (std::size_t i = 0; i < axis; ++i) offset += static_cast<int>(tensor.shape[i].size()) + 1;
    return offset;
  }

  Failure geometry(const CudaInstance& instance, const std::string& key, const Case& at) const {
    const std::array<std::pair<const char*, std::array<const std::string*, 3>>, 2> launch{
        {{"grid", {&instance.grid_x, &instance.grid_y, &instance.grid_z}},
         {"block", {&instance.block_x, &instance.block_y, &instance.block_z}}}};
    for (const auto& [name, axes] : launch) {
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        if (Failure f = integer(*axes[axis], at, 1, fmt::format("{}.{}[{}]", key, name, axis), 0)) return f;
      }
    }
    return integer(instance.dynamic_shared_bytes, at, 0, key + ".shared_bytes", 0);
  }

  double elements_of(const Workload& workload) const {
    double total = 0;
    for (const TensorSpec& tensor : project_.tensors) {
      if (tensor.role == TensorRole::scratch) continue;
      double elements = 1;
      for (const std::string& axis : tensor.shape) elements *= *evaluate(axis, workload.values);
      total += elements;
    }
    return total;
  }

  // Gates check the first one first: a mistake must cost seconds, not the target's time.
  Failure smallest_first() const {
    const Workload& first = project_.workloads.front();
    for (const Workload& workload : project_.workloads) {
      if (elements_of(workload) >= elements_of(first)) continue;
      return locations_.error(
          "workloads." + first.name,
          fmt::format("'{}' comes first with {:g} elements, but '{}' has only {:g}", first.name, elements_of(first),
                      workload.name, elements_of(workload)),
          fmt::format("move '{}' to the top: the smallest workload is checked first", workload.name));
    }
    return {};
  }

  void architectures() {
    for (std::size_t i = 0; i < project_.cuda_architectures.size(); ++i) {
      const std::string& name = project_.cuda_architectures[i];
      const bool digits = name.size() > 4 && name.rfind("sm_", 0) == 0 &&
                          std::isdigit(static_cast<unsigned char>(name[3])) &&
                          std::isdigit(static_cast<unsigned char>(name[4]));
      if (digits) continue;
      tell(locations_.error(fmt::format("cuda.architectures[{}]", i), fmt::format("is \"{}\"", name),
                            "write \"sm_89\" for an L4, \"sm_90\" for an H100"));
    }
    std::set<std::pair<std::string, std::string>> seen;
    for (std::size_t i = 0; i < project_.instances.size(); ++i) {
      const CudaInstance& instance = project_.instances[i];
      if (seen.emplace(instance.source, instance.name).second) continue;
      tell(locations_.error(fmt::format("cuda.instances[{}].name", i),
                            fmt::format("\"{}\" is declared twice", instance.name), "remove one of the two"));
    }
  }

  Failure kernels() const {
    if (project_.kernel.kind != CallableKind::none || !project_.instances.empty()) return {};
    return locations_.error("kernel", "is missing",
                            "name a C++ entry, kernel = \"kernel.cpp:function\", or declare CUDA kernels under [cuda]");
  }

  void launches(bool has_numbers) {
    std::vector<std::string> known;
    for (const CudaInstance& instance : project_.instances) known.push_back(instance.name);
    for (std::size_t i = 0; i < project_.cuda_launch.size(); ++i) {
      const std::string& name = project_.cuda_launch[i];
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      tell(locations_.error(fmt::format("cuda.launch[{}]", i),
                            fmt::format("\"{}\" is no instance; instances are {}", name, list_of(known)),
                            suggestion(name, known, "or declare it under [[cuda.instances]]")));
    }
    for (std::size_t i = 0; i < project_.instances.size(); ++i) {
      for (std::size_t k = 0; k < project_.instances[i].args.size(); ++k) {
        tell(argument(project_.instances[i].args[k], fmt::format("cuda.instances[{}].args[{}]", i, k), has_numbers));
      }
    }
  }

  Failure argument(const std::string& text, const std::string& key, bool has_numbers) const {
    const auto argument = parse_argument(project_, text);
    if (!argument)
      return locations_.error(key, fmt::format("\"{}\" is neither a tensor nor a type and an expression", text),
                              "name a tensor of [inputs], [outputs], [stages] or [scratch], or write \"i64 n\" (i32, "
                              "i64, u8, f32, f64)");
    if (argument->tensor || !has_numbers) return {};
    for (const Workload& workload : project_.workloads) {
      const Result<double> value = evaluate(argument->expression, with_point(project_, workload.values));
      const int offset = static_cast<int>(argument->type.size()) + 1;
      if (!value)
        return locations_.error(key, value.error().message, value.error().fix, offset + value.error().column - 1);
      if (argument->type[0] != 'f' && std::floor(*value) != *value)
        return locations_.error(key,
                                fmt::format("\"{}\" is {:g} in workload '{}', no integer", text, *value, workload.name),
                                "take f32 or f64, or floor_div");
    }
    return {};
  }

  void thresholds() {
    const Thresholds& thresholds = project_.thresholds;
    const bool rises =
        thresholds.ladder.size() == 4 && std::is_sorted(thresholds.ladder.begin(), thresholds.ladder.end());
    if (!rises) {
      tell(
          locations_.error("thresholds.ladder",
                           fmt::format("is [{:g}]; four rising numbers are needed", fmt::join(thresholds.ladder, ", ")),
                           "write [stop below, success, target, stretch], such as [0.5, 1.0, 1.2, 1.5]"));
    }
    if (mistakes_.touch("workloads")) return;
    std::vector<std::string> known;
    for (const Workload& workload : project_.workloads) known.push_back(workload.name);
    for (const auto& [key, name] : {std::pair{"thresholds.small", thresholds.small_workload},
                                    std::pair{"thresholds.target", thresholds.target_workload}}) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      tell(locations_.error(key, fmt::format("\"{}\" is no workload; workloads are {}", name, list_of(known)),
                            suggestion(name, known, "or declare it under [workloads]")));
    }
  }

  void hypotheses() {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < project_.hypotheses.size(); ++i) {
      const std::string& variant = project_.hypotheses[i].variant;
      const std::string key = fmt::format("hypotheses[{}].variant", i);
      if (variant.empty()) {
        tell(locations_.error(key, "is empty", "name the variant that the reference computes"));
      } else if (!seen.insert(variant).second) {
        tell(locations_.error(key, fmt::format("\"{}\" is declared twice", variant), "remove one of the two"));
      }
    }
  }

  const Project& project_;
  const Locations& locations_;
  Mistakes& mistakes_;
};

}  // namespace

void check_project(const Project& project, const Locations& locations, Mistakes& mistakes) {
  Check(project, locations, mistakes).all();
}

void check_files(const Project& project, const Locations& locations, Mistakes& mistakes) {
  namespace fs = std::filesystem;
  std::vector<std::pair<std::string, std::string>> named;  // key, file
  for (const auto& [key, callable] :
       {std::pair{"kernel", &project.kernel}, std::pair{"reference", &project.reference},
        std::pair{"baseline", &project.baseline}, std::pair{"torch_baseline", &project.torch_baseline}}) {
    if (callable->kind == CallableKind::none) continue;
    named.emplace_back(std::string(key) + ".call", callable->source);
    for (std::size_t i = 0; i < callable->sources.size(); ++i) {
      named.emplace_back(fmt::format("{}.sources[{}]", key, i), callable->sources[i]);
    }
  }
  for (std::size_t i = 0; i < project.cuda_sources.size(); ++i) {
    named.emplace_back(fmt::format("cuda.sources[{}]", i), project.cuda_sources[i]);
  }
  for (const auto& [key, file] : named) {
    std::error_code error;
    const fs::path path = fs::path(project.directory) / file;
    if (file.empty() || fs::is_regular_file(path, error)) continue;  // empty: it was told already
    Diagnostic missing = locations.error(key, fmt::format("\"{}\" is not a file in {}", file, project.directory),
                                         "create it, or correct the name");
    missing.code = codes::project_file;
    mistakes.add(std::move(missing));
  }
}

}  // namespace flashmoe::workflow
