#include "workflow/project/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "workflow/project/check_keys.hpp"
#include "workflow/project/suggest.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

struct Dtype {
  std::string_view name;
  cudadent_dtype dtype;
  double tolerance;
};
constexpr std::array dtypes{Dtype{"f64", CUDADENT_F64, 1e-12}, Dtype{"f32", CUDADENT_F32, 1e-5},
                            Dtype{"f16", CUDADENT_F16, 2e-3},  Dtype{"bf16", CUDADENT_BF16, 1.6e-2},
                            Dtype{"i32", CUDADENT_I32, 0},     Dtype{"i64", CUDADENT_I64, 0},
                            Dtype{"u8", CUDADENT_U8, 0}};

using View = toml::node_view<const toml::node>;
using Failure = std::optional<Diagnostic>;

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

double scalar(View view) {
  return view.is_boolean() ? (*view.value<bool>() ? 1.0 : 0.0) : view.value_or(0.0);
}

std::string text_of(View view, const std::string& otherwise = "") {
  return view.value<std::string>().value_or(otherwise);
}

std::string expression_of(View view) {
  if (const auto* integer = view.as_integer()) return fmt::format("{}", integer->get());
  return text_of(view);
}

std::vector<std::string> expressions_of(View view) {
  std::vector<std::string> expressions;
  if (const toml::array* array = view.as_array()) {
    for (const toml::node& node : *array) expressions.push_back(expression_of(View(node)));
  } else if (view) {
    expressions.push_back(expression_of(view));
  }
  return expressions;
}

std::vector<std::string> texts_of(View view) {
  return expressions_of(view);
}

class Reader {
 public:
  Reader(const toml::table& root, const Locations& locations, Mistakes& mistakes)
      : root_(root), locations_(locations), mistakes_(mistakes) {}

  Project read() {
    project_.name = text_of(root_["name"]);
    project_.description = text_of(root_["description"]);
    project_.include_directories = texts_of(at("cpu")["include"]);
    project_.cpu_flags = texts_of(at("cpu")["flags"]);
    tell(callable("kernel", project_.kernel));
    tell(callable("reference", project_.reference));
    tell(callable("baseline", project_.baseline));
    tell(callable("torch_baseline", project_.torch_baseline));
    params();
    tensors();
    workloads();
    cuda();
    hypotheses();
    numbers();
    return std::move(project_);
  }

 private:
  View at(std::string_view key) const { return root_[key]; }

  void tell(Failure failure) {
    if (failure) failure->code = codes::project_value;
    mistakes_.add(std::move(failure));
  }

  // ---- kernel, reference, baseline

  Failure callable(const std::string& key, Callable& callable) {
    const View view = at(key);
    if (!view) return {};
    const bool is_long = view.is_table();
    const std::string text = text_of(is_long ? view["call"] : view);
    const std::string where = is_long ? key + ".call" : key;
    callable.line = locations_.of(where).line;
    callable.sources = texts_of(view["sources"]);
    callable.libraries = texts_of(view["libraries"]);
    const std::size_t colon = text.rfind(':');
    const std::string example = fmt::format("write \"{}.cpp:function\"", key);
    if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
      return locations_.error(where, fmt::format("\"{}\" names no file and function", text), example);
    }
    callable.source = text.substr(0, colon);
    callable.entry = text.substr(colon + 1);
    const auto in_identifier = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    const bool named = std::all_of(callable.entry.begin(), callable.entry.end(), in_identifier) &&
                       !std::isdigit(static_cast<unsigned char>(callable.entry[0]));
    if (!named) {
      return locations_.error(where, fmt::format("\"{}\": '{}' is no function name", text, callable.entry), example,
                              static_cast<int>(colon) + 1);
    }
    const std::size_t dot = callable.source.rfind('.');
    const std::string suffix = dot == std::string::npos ? "" : callable.source.substr(dot + 1);
    if (suffix == "py") callable.kind = CallableKind::python;
    if (suffix == "cu") callable.kind = CallableKind::cuda;
    if (suffix == "c" || suffix == "cc" || suffix == "cpp" || suffix == "cxx") callable.kind = CallableKind::cpp;
    if (callable.kind == CallableKind::none) {
      return locations_.error(
          where,
          fmt::format("\"{}\": the file ends in \"{}\"; allowed are .cpp, .cc, .cxx, .c, .cu and .py", text, suffix),
          example);
    }
    if (key == "kernel" && callable.kind == CallableKind::cuda) {
      return locations_.error(where, fmt::format("\"{}\" is CUDA; the kernel here is a C++ or a Python entry", text),
                              "name the C++ or Python entry here; CUDA kernels go under [[cuda.instances]]");
    }
    callable.torch_tensors = key == "torch_baseline" || text_of(view["tensors"]) == "torch";
    if (callable.torch_tensors && callable.kind != CallableKind::python) {
      const bool must = key == "torch_baseline";
      return locations_.error(must ? where : key + ".tensors",
                              fmt::format("\"{}\" is not Python and has no torch tensors", text),
                              must ? "name a Python function" : "leave `tensors` out");
    }
    callable.name = text_of(view["name"], callable.entry);
    return {};
  }

  // ---- parameters and workloads

  void params() {
    const toml::table* table = at("params").as_table();
    if (!table) return;
    for (const Entry& entry : in_written_order(*table)) {
      ParamSpec param;
      param.name = entry.name;
      param.line = entry.position.line;
      tell(domain(View(entry.value), "params." + entry.name, param));
      project_.params.push_back(std::move(param));
    }
  }

  Failure domain(View view, const std::string& key, ParamSpec& param) const {
    if (!view.is_table()) {
      param.default_value = param.min = param.max = scalar(view);
      return {};
    }
    const toml::array* choices = view["choices"].as_array();
    const toml::array* range = view["range"].as_array();
    if (choices && range) return locations_.error(key, "has both choices and range", "keep one of them");
    if (choices && choices->empty()) return locations_.error(key + ".choices", "is empty", "name at least one value");
    if (!choices && !range && !view["default"]) {
      return locations_.error(key, "has no value", "add default, choices or range");
    }
    if (range) {
      const bool two = range->size() == 2;
      param.min = two ? range->get(0)->value<double>().value_or(0) : 0;
      param.max = two ? range->get(1)->value<double>().value_or(0) : 0;
      if (!two || param.min > param.max || std::floor(param.min) != param.min || std::floor(param.max) != param.max) {
        return locations_.error(key + ".range", "is not [least, largest] of two integers", "write range = [0, 4096]");
      }
      param.default_value = param.min;
    }
    if (choices) {
      for (const toml::node& choice : *choices) param.choices.push_back(scalar(View(choice)));
      const auto [least, largest] = std::minmax_element(param.choices.begin(), param.choices.end());
      param.min = *least;
      param.max = *largest;
      param.default_value = param.choices.front();
    }
    if (view["default"]) param.default_value = scalar(view["default"]);
    if (!choices && !range) param.min = param.max = param.default_value;
    return {};
  }

  void workloads() {
    const toml::table* table = at("workloads").as_table();
    if (!table) return;
    for (const Entry& entry : in_written_order(*table)) {
      if (!entry.value->is_table()) continue;
      Workload workload;
      workload.name = entry.name;
      workload.line = entry.position.line;
      std::vector<std::string> known;
      for (const ParamSpec& param : project_.params) {
        workload.values[param.name] = param.default_value;
        known.push_back(param.name);
      }
      for (const Entry& value : in_written_order(*entry.value->as_table())) {
        const std::string key = fmt::format("workloads.{}.{}", entry.name, value.name);
        if (!workload.values.count(value.name)) {
          tell(
              locations_.error_at(value.position, key,
                                  fmt::format("'{}' is not a parameter; parameters are {}", value.name, list_of(known)),
                                  suggestion(value.name, known, "or declare it under [params]")));
          continue;
        }
        workload.values[value.name] = scalar(View(value.value));
      }
      project_.workloads.push_back(std::move(workload));
    }
  }

  // ---- tensors

  void tensors() {
    for (const auto& [group, role] :
         {std::pair{"inputs", TensorRole::input}, std::pair{"outputs", TensorRole::output},
          std::pair{"stages", TensorRole::stage}, std::pair{"scratch", TensorRole::scratch}}) {
      const toml::table* table = at(group).as_table();
      if (!table) continue;
      for (const Entry& entry : in_written_order(*table)) {
        TensorSpec tensor;
        tensor.name = entry.name;
        tensor.role = role;
        tensor.line = entry.position.line;
        tell(this->tensor(View(entry.value), fmt::format("{}.{}", group, entry.name), tensor));
        project_.tensors.push_back(std::move(tensor));
      }
    }
  }

  Failure tensor(View view, const std::string& key, TensorSpec& tensor) const {
    const bool is_long = view.is_table();
    const std::string where = is_long ? key + ".type" : key;
    if (Failure failure = type_and_shape(text_of(is_long ? view["type"] : view), where, tensor)) return failure;
    tensor.stride = expressions_of(view["stride"]);
    tensor.init = text_of(view["init"], "normal");
    tensor.zeroed = view["zeroed"].value_or(false);
    // One given without the other: the one left out is 0, so that what is written is the whole rule.
    const auto absolute = view["absolute"].value<double>();
    const auto relative = view["relative"].value<double>();
    if (absolute || relative) tensor.tolerance = {absolute.value_or(0), relative.value_or(0)};
    return {};
  }

  // "f32[rows, ceil_div(cols, 4)]"
  Failure type_and_shape(const std::string& text, const std::string& key, TensorSpec& tensor) const {
    const std::size_t open = text.find('[');
    const std::string name = trimmed(text.substr(0, open));
    const auto* dtype = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& d) { return d.name == name; });
    if (dtype == dtypes.end()) {
      std::vector<std::string> known;
      known.reserve(dtypes.size());
      for (const Dtype& d : dtypes) known.emplace_back(d.name);
      return locations_.error(
          key, fmt::format("\"{}\": '{}' is no element type; allowed are {}", text, name, list_of(known)),
          suggestion(name, known, "or write \"f32[n]\""));
    }
    tensor.dtype = dtype->dtype;
    tensor.tolerance = default_tolerance(dtype->dtype);
    const std::size_t close = text.rfind(']');
    if (open == std::string::npos || close == std::string::npos || close < open ||
        !trimmed(text.substr(close + 1)).empty()) {
      return locations_.error(key, fmt::format("\"{}\" has no shape in brackets", text),
                              fmt::format("write \"{}[n]\"", name));
    }
    int depth = 0;
    std::size_t begin = open + 1;
    for (std::size_t i = begin; i <= close; ++i) {
      if (text[i] == '(') ++depth;
      if (text[i] == ')') --depth;
      if (i != close && (text[i] != ',' || depth > 0)) continue;
      tensor.shape.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
    if (tensor.shape.size() > CUDADENT_MAX_RANK) {
      return locations_.error(key, fmt::format("\"{}\" has {} axes; at most {} are allowed", text, tensor.shape.size(),
                                               static_cast<int>(CUDADENT_MAX_RANK)));
    }
    return {};
  }

  // ---- the CUDA twin

  void cuda() {
    const View view = at("cuda");
    if (!view.is_table()) return;
    project_.cuda_sources = texts_of(view["sources"]);
    project_.cuda_flags = texts_of(view["flags"]);
    project_.cuda_architectures = texts_of(view["architectures"]);
    if (project_.cuda_architectures.empty()) project_.cuda_architectures = {"sm_89"};
    project_.cuda_device = text_of(view["device"], project_.cuda_device);
    project_.cuda_baseline = text_of(view["baseline"]);
    std::size_t index = 0;
    static const toml::array none;
    const toml::array* instances = view["instances"].as_array();
    for (const toml::node& node : instances ? *instances : none) {
      const std::string key = fmt::format("cuda.instances[{}]", index++);
      CudaInstance instance;
      instance.line = locations_.of(key).line;
      instance.name = text_of(View(node)["name"]);
      tell(this->instance(View(node), key, instance));
      project_.instances.push_back(std::move(instance));
    }
    project_.cuda_launch = texts_of(view["launch"]);
    if (project_.cuda_launch.empty() && !project_.instances.empty())
      project_.cuda_launch = {project_.instances.front().name};
  }

  Failure instance(View view, const std::string& key, CudaInstance& instance) const {
    instance.source = text_of(view["source"], project_.cuda_sources.size() == 1 ? project_.cuda_sources[0] : "");
    const std::vector<std::string>& known = project_.cuda_sources;
    const bool has_sources = !mistakes_.touch("cuda.sources");
    if (has_sources && instance.source.empty()) {
      return locations_.error(key + ".source", fmt::format("is missing; cuda.sources has {} files", known.size()),
                              fmt::format("name one of them: {}", list_of(known)));
    }
    if (has_sources && std::find(known.begin(), known.end(), instance.source) == known.end()) {
      return locations_.error(key + ".source",
                              fmt::format("\"{}\" is not in cuda.sources: {}", instance.source, list_of(known)),
                              suggestion(instance.source, known, "or add it to cuda.sources"));
    }
    if (Failure failure = geometry(view, key, "grid", instance.grid_x, instance.grid_y, instance.grid_z))
      return failure;
    if (Failure failure = geometry(view, key, "block", instance.block_x, instance.block_y, instance.block_z))
      return failure;
    instance.args = texts_of(view["args"]);
    if (view["shared_bytes"]) instance.dynamic_shared_bytes = expression_of(view["shared_bytes"]);
    if (view["when"]) instance.when = expression_of(view["when"]);
    instance.max_spill_bytes = view["max_spill_bytes"].value_or(instance.max_spill_bytes);
    instance.min_occupancy = view["min_occupancy"].value_or(instance.min_occupancy);
    return {};
  }

  Failure geometry(View view, const std::string& key, const char* name, std::string& x, std::string& y,
                   std::string& z) const {
    const std::vector<std::string> axes = expressions_of(view[name]);
    if (axes.empty() || axes.size() > 3) {
      return locations_.error(fmt::format("{}.{}", key, name),
                              fmt::format("has {} axes; one to three are allowed", axes.size()));
    }
    x = axes[0];
    if (axes.size() > 1) y = axes[1];
    if (axes.size() > 2) z = axes[2];
    return {};
  }

  // ---- what needs no check of its own

  void hypotheses() {
    const toml::array* array = at("hypotheses").as_array();
    if (!array) return;
    for (const toml::node& node : *array) {
      const View view(node);
      project_.hypotheses.push_back({text_of(view["variant"]), text_of(view["says"]), text_of(view["fix"])});
    }
  }

  void numbers() {
    const View correctness = at("correctness");
    project_.random_workloads = correctness["random_workloads"].value_or(project_.random_workloads);
    if (correctness["hard_values"]) project_.hard_values = texts_of(correctness["hard_values"]);
    project_.call_limit_seconds = correctness["call_limit_seconds"].value_or(project_.call_limit_seconds);

    Thresholds& thresholds = project_.thresholds;
    const View view = at("thresholds");
    if (const toml::array* ladder = view["ladder"].as_array()) {
      thresholds.ladder.clear();
      for (const toml::node& step : *ladder) thresholds.ladder.push_back(scalar(View(step)));
    }
    const std::vector<Workload>& workloads = project_.workloads;
    const std::string second = workloads.empty() ? "" : workloads[workloads.size() > 2 ? 1 : 0].name;
    thresholds.small_workload = text_of(view["small"], second);
    thresholds.target_workload = text_of(view["target"], workloads.empty() ? "" : workloads.back().name);
    thresholds.baseline_drift = view["baseline_drift"].value_or(thresholds.baseline_drift);
    for (auto& [phase, gain] : thresholds.least_gain) gain = view["least_gain"][phase].value_or(gain);
    thresholds.max_iterations = view["max_iterations"].value_or(thresholds.max_iterations);
    thresholds.max_minutes = view["max_minutes"].value_or(thresholds.max_minutes);

    project_.cost.machine_per_hour = at("cost")["machine_per_hour"].value_or(0.0);
    project_.cost.agent_per_hour = at("cost")["agent_per_hour"].value_or(0.0);
    project_.machine = {text_of(at("machine")["status"]), text_of(at("machine")["start"]),
                        text_of(at("machine")["stop"])};
  }

  const toml::table& root_;
  const Locations& locations_;
  Mistakes& mistakes_;
  Project project_;
};

}  // namespace

Tolerance default_tolerance(cudadent_dtype dtype) {
  const auto* found = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& d) { return d.dtype == dtype; });
  const double few_roundings = found == dtypes.end() ? 0 : found->tolerance;
  return {few_roundings, few_roundings, true};
}

Project read_project(const toml::table& root, const Locations& locations, Mistakes& mistakes) {
  return Reader(root, locations, mistakes).read();
}

}  // namespace flashmoe::workflow
