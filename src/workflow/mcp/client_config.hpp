// What a client's configuration says to start the server.
#pragma once

#include <string>

#include "workflow/output/answer.hpp"

namespace flashmoe::workflow::mcp {

// {"mcpServers": {"cudadent": {"command", "args"}}}, as .mcp.json has it.
[[nodiscard]] std::string config_text(const std::string& program, const std::string& root);
// The same with the tools' names.
[[nodiscard]] std::string config_json(const Answer& answer, const std::string& program, const std::string& root);

}  // namespace flashmoe::workflow::mcp
