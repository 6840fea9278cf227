// One line between a client and the server, as JSON-RPC 2.0 has it.
#pragma once

#include <string>
#include <string_view>

#include "support/json.hpp"

namespace flashmoe::workflow::mcp {

// The protocol's own numbers.
inline constexpr int parse_error = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal_error = -32603;
inline constexpr int unsupported_version = -32022;
inline constexpr int legacy_resource_not_found = -32002;

struct Message {
  enum class Kind { request, notification, response, wrong };
  Kind kind = Kind::wrong;
  Json id{};  // null: there is none, or it cannot be told
  std::string method{};
  Json params = Json::object();
  int code = 0;  // of what is wrong
  std::string problem{};
};

[[nodiscard]] Message read_message(std::string_view line);

// Lines without their end.
[[nodiscard]] std::string result_line(const Json& id, const Json& result);
[[nodiscard]] std::string error_line(const Json& id, int code, const std::string& message, const Json& data = {});
[[nodiscard]] std::string notification_line(const char* method, const Json& params);

}  // namespace flashmoe::workflow::mcp
