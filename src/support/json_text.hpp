// JSON as text. Bytes that are no UTF-8 (a compiler's message in another encoding) are replaced, never a throw.
#pragma once

#include <string>

#include "support/json.hpp"

namespace flashmoe {

[[nodiscard]] inline std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[nodiscard]] inline std::string indented(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flashmoe
