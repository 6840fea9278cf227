// cudadent schema: what cudadent.toml may hold, for editors, validators and the manual.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/keys.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  bool markdown = false;
  bool answers = false;
  bool codes = false;
  JsonFlag json;
};

std::string codes_markdown() {
  std::string text = "| code | exit code | meaning |\n| --- | --- | --- |\n";
  for (const workflow::ProblemCode& row : workflow::all_codes()) {
    text += fmt::format("| `{}` | {} | {} |\n", row.code, static_cast<int>(row.exit), row.about);
  }
  return text;
}

int run(const Flags& flags) {
  std::string text = flags.answers ? workflow::answers_schema_json() : workflow::schema_json();
  if (flags.markdown) text = workflow::keys_markdown();
  if (flags.codes) {
    text =
        flags.json ? workflow::codes_json(answer_of("schema", flags.json, 0, "", "cudadent status")) : codes_markdown();
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

constexpr const char* manual =
    R"(The schema comes from the table of keys that also reads and checks the file, so an editor that knows it (for
example through a "#:schema" line) completes and checks what cudadent will accept. --answers is the schema of what
commands print with --json, and --codes the table of their codes.

Examples:
  cudadent schema > cudadent.schema.json
  cudadent schema --markdown                 the same as a table for people
  cudadent schema --answers                  of every --json
  cudadent schema --codes                    every kind of problem, with its exit code)";

}  // namespace

Command schema_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "schema",
          .about = "Print the JSON Schema of cudadent.toml, or of the answers",
          .manual = manual,
          .options = {{.names = "--markdown",
                       .value = &flags->markdown,
                       .about = "A Markdown table of all keys instead",
                       .alternatives = "what"},
                      {.names = "--answers",
                       .value = &flags->answers,
                       .about = "The JSON Schema of what commands print with --json",
                       .alternatives = "what"},
                      {.names = "--codes",
                       .value = &flags->codes,
                       .about = "The table of codes, as Markdown or JSON",
                       .alternatives = "what"},
                      json_option(flags->json, "JSON on stdout")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
