#include "workflow/mcp/message.hpp"

#include <utility>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"

namespace flashmoe::workflow::mcp {
namespace {

Message wrong(int code, const char* problem, Json id = {}) {
  Message message;
  message.id = std::move(id);
  message.code = code;
  message.problem = problem;
  return message;
}

// Null for one that the protocol does not allow.
Json id_in(const Json& json) {
  const Json* id = field_in(json, "id");
  const bool is_one = id != nullptr && (id->is_string() || id->is_number_integer());
  return is_one ? *id : Json();
}

}  // namespace

Message read_message(std::string_view line) {
  Json json = bounded_json(line);
  if (json.is_discarded()) return wrong(parse_error, "the line is not JSON, or nested too deeply");
  if (json.is_array()) return wrong(invalid_request, "batches are not part of this protocol: send one message a line");
  if (!json.is_object()) return wrong(invalid_request, "a message is a JSON object");
  Json id = id_in(json);
  if (text_in(json, "jsonrpc") != "2.0") return wrong(invalid_request, R"("jsonrpc" has to be "2.0")", id);
  if (json.contains("id") && id.is_null()) return wrong(invalid_request, R"("id" has to be a text or an integer)");
  Message message;
  message.id = std::move(id);
  if (!json.contains("method")) {
    if (!json.contains("result") && !json.contains("error")) {
      return wrong(invalid_request, R"("method" is missing)", message.id);
    }
    message.kind = Message::Kind::response;
    return message;
  }
  if (!json["method"].is_string()) return wrong(invalid_request, R"("method" has to be a text)", message.id);
  message.kind = message.id.is_null() ? Message::Kind::notification : Message::Kind::request;
  message.method = json["method"].get<std::string>();
  if (!json.contains("params")) return message;
  if (!json["params"].is_object()) return wrong(invalid_params, R"("params" has to be an object)", message.id);
  message.params = std::move(json["params"]);
  return message;
}

std::string result_line(const Json& id, const Json& result) {
  return one_line({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
}

std::string error_line(const Json& id, int code, const std::string& message, const Json& data) {
  Json error = {{"code", code}, {"message", message}};
  if (!data.is_null()) error["data"] = data;
  return one_line({{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(error)}});
}

std::string notification_line(const char* method, const Json& params) {
  return one_line({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

}  // namespace flashmoe::workflow::mcp
