#include "workflow/mcp/client_config.hpp"

#include "support/json_text.hpp"
#include "workflow/mcp/tool_table.hpp"

namespace flashmoe::workflow::mcp {
namespace {

Json config_of(const std::string& program, const std::string& root) {
  return {{"mcpServers", {{"cudadent", {{"command", program}, {"args", {"mcp", root}}}}}}};
}

}  // namespace

std::string config_text(const std::string& program, const std::string& root) {
  return indented(config_of(program, root));
}

std::string config_json(const Answer& answer, const std::string& program, const std::string& root) {
  Json tools = Json::array();
  for (const Tool& tool : all_tools()) tools.push_back(tool.name);
  return written(answer, {{"root", root}, {"tools", std::move(tools)}, {"config", config_of(program, root)}});
}

}  // namespace flashmoe::workflow::mcp
