// cudadent new: a working kernel project to begin with.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/scaffold.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string name;
  std::string example = "vector_add";
  JsonFlag json;
};

int run(const Flags& flags) {
  const std::filesystem::path here = std::filesystem::current_path();
  const std::string name = flags.name.empty() ? here.filename().string() : flags.name;
  const Result<std::vector<std::string>> written = workflow::make_project(here.string(), name, flags.example);
  if (!written) return fail("new", flags.json, written.error());
  const std::string next = "cudadent gate";
  if (flags.json) {
    fmt::print("{}", new_project_json(answer_of("new", flags.json, 0, "", next), name, here.string(), *written));
    return 0;
  }
  fmt::print("Made the kernel project '{}' from the example {}: {}\n", name, flags.example, fmt::join(*written, ", "));
  fmt::print("Edit kernel.cpp, reference.cpp and cudadent.toml one at a time, and run the gates after each.\n");
  fmt::print("{}", last_line("it works as it stands", next));
  return 0;
}

constexpr const char* manual =
    R"(Writes cudadent.toml, a kernel in C++ with its CUDA twin, a reference and a baseline. It builds, is correct and
is measured as it stands; replace its parts by yours one at a time. Existing files are never overwritten.

Examples:
  mkdir my_kernel && cd my_kernel && cudadent new
  cudadent new --example softmax row_softmax     begin with another example, under this name)";

}  // namespace

Command new_command() {
  auto flags = std::make_shared<Flags>();
  return {
      .name = "new",
      .about = "Make a working kernel project in the current directory",
      .manual = manual,
      .options = {{.names = "NAME", .value = &flags->name, .about = "Name of the project (default: the directory's)"},
                  {.names = "--example",
                   .value = &flags->example,
                   .about = "What to begin with: vector_add, softmax or matmul",
                   .shows_default = true},
                  json_option(flags->json, "What was made, as JSON on stdout")},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
