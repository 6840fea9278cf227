#include "vgpu/ir/signature.hpp"

#include <fmt/format.h>

#include "vgpu/ir/layout.hpp"

namespace flashmoe::vgpu::ir {

Signature signature_of(std::span<const ptx::Variable> returns, std::span<const ptx::Variable> parameters) {
  const ParameterArea area = parameter_area(returns, parameters);
  Signature signature;
  for (std::size_t i = 0; i < returns.size(); ++i) signature.results.push_back({area.returns[i], bytes_of(returns[i])});
  for (std::size_t i = 0; i < parameters.size(); ++i)
    signature.arguments.push_back({area.parameters[i], bytes_of(parameters[i])});
  return signature;
}

std::string Signature::text(const std::string& name) const {
  std::uint32_t end = 0;
  const auto list = [&end](const std::vector<Place>& places) {
    std::string text;
    for (const Place& place : places) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", place.bytes);
      if (place.offset != end) text += fmt::format(" at {}", place.offset);
      end = place.offset + place.bytes;
    }
    return text;
  };
  const std::string first = list(results);  // its places come first: the order of these two matters
  return fmt::format("({}) {}({})", first, name, list(arguments));
}

}  // namespace flashmoe::vgpu::ir
