// Names as they stand in the source: "softmax<float, 128>" for _Z7softmaxIfLi128EEvPKT_PS0_i.
#pragma once

#include <string>
#include <string_view>

namespace flashmoe::vgpu::ir {

// A symbol; what is none comes back as it is.
[[nodiscard]] std::string readable_name(std::string_view symbol);
// A text with symbols in it.
[[nodiscard]] std::string readable_names(std::string_view text);

}  // namespace flashmoe::vgpu::ir
