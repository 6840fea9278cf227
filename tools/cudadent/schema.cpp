// cudadent schema: what cudadent.toml may hold, for editors, validators and the manual.
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/keys.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  bool markdown = false;
  bool json = false;
};

constexpr const char* manual =
    R"(The schema comes from the table of keys that also reads and checks the file, so an editor that knows it (for
example through a "#:schema" line) completes and checks what cudadent will accept.

Examples:
  cudadent schema > cudadent.schema.json
  cudadent schema --markdown                 the same as a table for people)";

}  // namespace

Command schema_command() {
  auto flags = std::make_shared<Flags>();
  return {
      .name = "schema",
      .about = "Print the JSON Schema of cudadent.toml",
      .manual = manual,
      .options = {{.names = "--markdown", .value = &flags->markdown, .about = "A Markdown table of all keys instead"},
                  {.names = "--json", .value = &flags->json, .about = "JSON on stdout: what it prints anyway"}},
      .run = [flags] {
        std::fputs((flags->markdown ? workflow::keys_markdown() : workflow::schema_json()).c_str(), stdout);
        return 0;
      }};
}

}  // namespace flashmoe::tools
