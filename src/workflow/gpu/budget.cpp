#include "workflow/gpu/budget.hpp"

#include <algorithm>
#include <cmath>

#include "workflow/gpu/launch_report.hpp"
#include "workflow/runner/layout.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double least_budget = 3e7;  // a few seconds; what a case of any ordinary size needs
constexpr double most_budget = 1e9;   // minutes; nobody waits for more in a gate
constexpr double allowance = 16;      // tiles that do not fill up, another path for another shape
// Work grows no faster than with the square of the size: attention's keys times queries, a matrix product over what it
// reads.
double grown(double instructions, double ratio) {
  return instructions * std::pow(std::max(1.0, ratio), 2);
}

}  // namespace

void InstructionBudget::read_what_ran() {
  if (report_.empty() || cases_.empty()) return;
  for (const LaunchReport& launch : read_launches(report_, read_bytes_)) {
    cases_.back().most_instructions = std::max(cases_.back().most_instructions, launch.instructions());
  }
}

std::uint64_t InstructionBudget::next(double size) {
  read_what_ran();
  double needed = 0;
  for (const Case& one : cases_) {
    needed = std::max(needed, allowance * grown(one.most_instructions, size / std::max(1.0, one.size)));
  }
  if (needed == 0) needed = grown(1, size);  // nothing is known yet
  cases_.push_back({.size = size});
  return static_cast<std::uint64_t>(std::clamp(needed, least_budget, most_budget));
}

double size_of_case(const Project& project, const Values& values) {
  double elements = 0;
  if (const auto layout = layout_of(project, values)) {
    for (const TensorLayout& tensor : layout->tensors) elements += static_cast<double>(tensor.count);
  }
  double product = 1;
  for (const auto& [name, value] : values) product *= std::max(1.0, value);
  return std::max(elements, product);
}

}  // namespace flashmoe::workflow
