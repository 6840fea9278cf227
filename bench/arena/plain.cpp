#include "plain.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "workflow/runner/element.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/judge.hpp"
#include "workflow/runner/layout.hpp"
#include "workflow/runner/session.hpp"

namespace flashmoe::arena {
namespace {

using workflow::Layout;
using workflow::Project;
using workflow::TensorLayout;
using workflow::TensorRole;
using workflow::Values;

// One call's tensors in ordinary memory. `values` outlives it.
class Call {
 public:
  Call(const Project& project, const Values& values, Layout layout) : project_(project), layout_(std::move(layout)) {
    for (const TensorLayout& tensor : layout_.tensors) memory_.emplace_back(tensor.bytes);
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const TensorLayout& tensor = layout_.tensors[i];
      cudadent_tensor one{};
      one.name = tensor.name.c_str();
      one.data = memory_[i].data();
      one.dtype = tensor.dtype;
      one.rank = static_cast<std::int32_t>(tensor.shape.size());
      std::copy(tensor.shape.begin(), tensor.shape.end(), one.shape);
      std::copy(tensor.stride.begin(), tensor.stride.end(), one.stride);
      tensors_.push_back(one);
    }
    for (const auto& [name, value] : values) params_.push_back({name.c_str(), value});
    call_.struct_size = sizeof(cudadent_call);
    call_.tensor_count = static_cast<std::int32_t>(tensors_.size());
    call_.param_count = static_cast<std::int32_t>(params_.size());
    call_.threads = 1;
    call_.tensors = tensors_.data();
    call_.params = params_.data();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void fill(std::uint64_t seed, const std::string& hard) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (layout_.tensors[i].role != TensorRole::input) continue;
      workflow::fill_input(memory_[i], project_.tensors[i], workflow::mix_seed(seed, i), hard);
    }
  }
  [[nodiscard]] const cudadent_call* arguments() const { return &call_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<std::byte>& memory(std::size_t tensor) const { return memory_[tensor]; }

 private:
  const Project& project_;
  Layout layout_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<cudadent_tensor> tensors_;
  std::vector<cudadent_param> params_;
  cudadent_call call_{};
};

bool all_close(const Call& got, const Call& expected, double tolerance) {
  for (std::size_t i = 0; i < got.layout().tensors.size(); ++i) {
    const TensorLayout& tensor = got.layout().tensors[i];
    if (tensor.role != TensorRole::output) continue;
    for (std::int64_t at = 0; at < tensor.count; ++at) {
      const std::size_t offset = tensor.element_offset(at);
      const double a = workflow::load_element(got.memory(i).data() + offset, tensor.dtype);
      const double b = workflow::load_element(expected.memory(i).data() + offset, tensor.dtype);
      const bool both_special = (std::isnan(a) && std::isnan(b)) || a == b;
      if (!both_special && !(std::fabs(a - b) <= tolerance + tolerance * std::fabs(b))) return false;
    }
  }
  return true;
}

bool all_right(const Project& project, const Call& got, const Call& expected, bool hard) {
  for (std::size_t i = 0; i < got.layout().tensors.size(); ++i) {
    const TensorLayout& tensor = got.layout().tensors[i];
    if (tensor.role != TensorRole::output) continue;
    if (!workflow::judge(tensor, expected.memory(i), got.memory(i), project.tensors[i].tolerance, hard).ok()) {
      return false;
    }
  }
  return true;
}

bool same_bits(const Call& a, const Call& b) {
  for (std::size_t i = 0; i < a.layout().tensors.size(); ++i) {
    if (a.layout().tensors[i].role == TensorRole::output && a.memory(i) != b.memory(i)) return false;
  }
  return true;
}

// Of this thread: on a busy machine the wall's clock says nothing, and work that another thread does is as invisible as
// work in another stream is to the events of a card.
std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

struct Entries {
  const Project& project;
  cudadent_entry kernel, reference;

  [[nodiscard]] std::unique_ptr<Call> make(const Values& shape) const {
    auto layout = workflow::layout_of(project, shape, false);
    return layout ? std::make_unique<Call>(project, shape, std::move(*layout)) : nullptr;
  }
};

enum class Judge { close, wide, by_project };

bool right_at(const Entries& entries, const Values& shape, std::uint64_t seed, const std::string& hard, Judge judge) {
  const auto got = entries.make(shape);
  const auto expected = entries.make(shape);
  if (!got || !expected) return false;
  got->fill(seed, hard);
  expected->fill(seed, hard);
  if (entries.reference(expected->arguments()) != 0 || entries.kernel(got->arguments()) != 0) return false;
  if (judge == Judge::by_project) return all_right(entries.project, *got, *expected, !hard.empty());
  return all_close(*got, *expected, judge == Judge::wide ? 10 * plain_tolerance : plain_tolerance);
}

bool repeats_itself(const Entries& entries, const Values& shape, std::uint64_t seed) {
  std::unique_ptr<Call> first;
  for (int i = 0; i < 3; ++i) {
    auto call = entries.make(shape);
    if (!call) return false;
    call->fill(seed, "");
    if (entries.kernel(call->arguments()) != 0) return false;
    if (first && !same_bits(*first, *call)) return false;
    if (!first) first = std::move(call);
  }
  return true;
}

Json run(const Entries& entries, std::uint64_t seed) {
  const Values& shape = workflow::target_workload(entries.project)->values;
  bool right = true;
  for (int i = 0; i < plain_checked_calls; ++i) {
    right =
        right_at(entries, shape, workflow::mix_seed(seed, static_cast<std::uint64_t>(i)), "", Judge::close) && right;
  }
  Json samples = Json::array();
  const auto call = entries.make(shape);
  call->fill(seed, "");
  for (int i = 0; i < plain_warm_up_calls; ++i) entries.kernel(call->arguments());
  for (int sample = 0; sample < plain_samples; ++sample) {
    const std::int64_t start = now();
    for (int i = 0; i < plain_calls_per_sample; ++i) entries.kernel(call->arguments());
    samples.push_back((now() - start) / plain_calls_per_sample);
  }
  return {{"right", right}, {"nanoseconds", samples}};
}

Json sweep(const Entries& entries, const std::vector<Values>& shapes, std::uint64_t seed) {
  bool right = true;
  for (const Values& shape : shapes) right = right && right_at(entries, shape, seed, "", Judge::close);
  right = right && right_at(entries, shapes.back(), seed, "large", Judge::wide) &&
          repeats_itself(entries, shapes.back(), seed);
  return {{"right", right}};
}

cudadent_entry entry_of(const std::string& library, const std::string& entry) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<cudadent_entry>(dlsym(handle, entry.c_str()));
}

Json json_of(const Values& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
  return json;
}

Values values_of(const Json& json) {
  Values values;
  for (const auto& [name, value] : json.items()) values[name] = value.get<double>();
  return values;
}

Json request_for(const PlainPlayers& players, const char* what, std::uint64_t seed) {
  return {{"what", what},
          {"project", players.project},
          {"kernel", players.kernel.library},
          {"kernel_entry", players.kernel.entry},
          {"reference", players.reference.library},
          {"reference_entry", players.reference.entry},
          {"seed", seed}};
}

// What the process answers; null where it crashed or hung, which is an answer about the kernel, too.
Result<Json> ask(const Json& request) {
  const auto finished = run_process(
      {.argv = {workflow::worker_command().front(), "plain", one_line(request)}, .limit = std::chrono::seconds(30)});
  if (!finished) return finished.error();
  if (finished->interrupted) return Diagnostic{.message = "interrupted"};
  if (!finished->ok()) return Json();
  return parse_json(finished->out);
}

}  // namespace

Result<PlainRun> plain_run(const PlainPlayers& players, std::uint64_t seed) {
  const auto answer = ask(request_for(players, "run", seed));
  if (!answer) return answer.error();
  PlainRun result{.right = flag_in(*answer, "right")};
  for (const Json& one : list_in(*answer, "nanoseconds")) result.nanoseconds.push_back(one.get<std::int64_t>());
  return result;
}

Result<bool> plain_sweep(const PlainPlayers& players, const std::vector<Values>& shapes, std::uint64_t seed) {
  Json request = request_for(players, "sweep", seed);
  for (const Values& shape : shapes) request["shapes"].push_back(json_of(shape));
  const auto answer = ask(request);
  if (!answer) return answer.error();
  return flag_in(*answer, "right");
}

Result<bool> is_wrong_at(const PlainPlayers& players, const Values& shape, const std::string& hard,
                         std::uint64_t seed) {
  Json request = request_for(players, "wrong_at", seed);
  request["shapes"].push_back(json_of(shape));
  request["hard"] = hard;
  const auto answer = ask(request);
  if (!answer) return answer.error();
  return !flag_in(*answer, "right");
}

int plain_main(const std::string& text) {
  const Json request = parse_json(text);
  const auto project = workflow::load_project(text_in(request, "project"));
  if (!project) {
    std::cerr << project.error().to_string() << "\n";
    return 4;
  }
  const Entries entries{*project, entry_of(text_in(request, "kernel"), text_in(request, "kernel_entry")),
                        entry_of(text_in(request, "reference"), text_in(request, "reference_entry"))};
  if (entries.kernel == nullptr || entries.reference == nullptr) {
    std::cerr << "an entry could not be loaded\n";
    return 4;
  }
  const auto seed = request.value("seed", std::uint64_t{0});
  std::vector<Values> shapes;
  for (const Json& shape : list_in(request, "shapes")) shapes.push_back(values_of(shape));
  const std::string what = text_in(request, "what");
  if (what == "run") {
    std::cout << one_line(run(entries, seed)) << "\n";
  } else if (what == "sweep") {
    std::cout << one_line(sweep(entries, shapes, seed)) << "\n";
  } else {
    const bool right = right_at(entries, shapes.at(0), seed, text_in(request, "hard"), Judge::by_project);
    std::cout << one_line(Json{{"right", right}}) << "\n";
  }
  return 0;
}

}  // namespace flashmoe::arena
