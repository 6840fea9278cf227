// Tests only: files of this clone. Its paths are in one object, so that clones share what is compiled of all others.
#pragma once

#include <string>

namespace flashmoe {

[[nodiscard]] std::string in_sources(const std::string& path);
[[nodiscard]] std::string in_build(const std::string& path);

}  // namespace flashmoe
