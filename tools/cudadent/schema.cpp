// cudadent schema: what cudadent.toml may hold, for editors, validators and the manual.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "workflow/project/keys.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::tools {

void add_schema(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of cudadent.toml");
  command->footer(
      "The schema comes from the table of keys that also reads and checks the file, so an editor that knows it (for\n"
      "example through a \"#:schema\" line) completes and checks what cudadent will accept.\n\n"
      "Examples:\n"
      "  cudadent schema > cudadent.schema.json\n"
      "  cudadent schema --markdown                 the same as a table for people");
  auto markdown = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "A Markdown table of all keys instead");
  command->add_flag("--json", *json, "JSON on stdout: what it prints anyway");
  command->callback([markdown, json, &exit_code] {
    const std::string text = *markdown ? workflow::keys_markdown() : workflow::project_schema().dump(2) + "\n";
    std::fputs(text.c_str(), stdout);
    exit_code = 0;
  });
}

}  // namespace flashmoe::tools
