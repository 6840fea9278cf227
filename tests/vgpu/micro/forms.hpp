// Which forms there are: all of the op table, and the list of what published attention kernels use.
#pragma once

#include <string>
#include <vector>

#include "vgpu/micro/form_text.hpp"

namespace flashmoe::vgpu::micro {

[[nodiscard]] std::vector<FormText> forms_of_the_table();
// The lines of a list as in data/; `unsupported` gets those that no row of the table matches.
[[nodiscard]] std::vector<FormText> forms_of_the_list(const std::string& path, std::vector<std::string>& unsupported);

}  // namespace flashmoe::vgpu::micro
