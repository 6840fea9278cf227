#include <algorithm>
#include <array>

#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

std::optional<LaunchArgument> parse_argument(const Project& project, const std::string& text) {
  const auto tensor = std::find_if(project.tensors.begin(), project.tensors.end(),
                                   [&](const TensorSpec& spec) { return spec.name == text; });
  if (tensor != project.tensors.end())
    return LaunchArgument{.tensor = static_cast<std::size_t>(tensor - project.tensors.begin())};
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  LaunchArgument scalar{.type = text.substr(0, space), .expression = text.substr(space + 1)};
  constexpr std::array types{"i32", "i64", "u8", "f32", "f64"};
  if (std::find(types.begin(), types.end(), scalar.type) == types.end()) return std::nullopt;
  return scalar;
}

}  // namespace flashmoe::workflow
