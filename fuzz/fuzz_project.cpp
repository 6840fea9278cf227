// Bytes as a cudadent.toml, and its first line as an expression. The property: a project or a diagnostic that says what
// is wrong, never a crash; and what one accepts, the other can use.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "workflow/project/point.hpp"
#include "workflow/project/project.hpp"

namespace {

using namespace flashmoe::workflow;

[[noreturn]] void violated(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

void check_expression(const std::string& text) {
  const Values values{{"n", 1000}, {"S", 128}, {"x", 0.5}};
  const auto value = evaluate(text, values);
  if (!value && value.error().message.empty()) violated("an error without a message", text);
  if (!value && (value.error().column < 1 || value.error().column > static_cast<int>(text.size()) + 1)) {
    violated("an error outside the expression", text);
  }
  if (value && !std::isfinite(*value)) violated("a value that is not finite", text);
}

void check_project_file(const std::string& text) {
  const auto project = parse_project(text, "cudadent.toml");
  if (!project) {
    if (project.error().message.empty() || project.error().line < 1) violated("an error without message or line", text);
    return;
  }
  // An accepted project's expressions hold for every workload it declares.
  for (const Workload& workload : project->workloads) {
    const Values at_point = with_point(*project, workload.values);
    for (const TensorSpec& tensor : project->tensors) {
      for (const std::string& axis : tensor.shape) {
        const auto size = evaluate(axis, tensor.role == TensorRole::scratch ? at_point : workload.values);
        if (!size || *size < 0 || std::floor(*size) != *size) violated("an accepted shape that is none", axis);
      }
    }
    for (const CudaInstance& instance : project->instances) {
      const auto when = evaluate(instance.when, at_point);
      if (!when) violated("an accepted condition that is none", instance.when);
      if (*when == 0) continue;
      const auto grid = evaluate(instance.grid_x, at_point);
      if (!grid || *grid < 1) violated("an accepted grid that is none", instance.grid_x);
    }
  }
  // What is written for the point is what is read, and the defaults are legal.
  const auto again = parse_point(*project, point_text(*project, project->point), "point.toml");
  if (!again || *again != project->point)
    violated("a point that does not come back", point_text(*project, project->point));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_expression(text.substr(0, text.find('\n')));
  check_project_file(text);
  return 0;
}
