// cudadent mcp: an agent's tools, over the Model Context Protocol on standard input and output.
#include <filesystem>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/mcp/client_config.hpp"
#include "workflow/mcp/serve.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string root = ".";
  double answer_within_seconds = 40;
  bool config = false;
  JsonFlag json;
};

int run(const Flags& flags) {
  std::error_code failed;
  const fs::path root = fs::canonical(flags.root, failed);
  if (failed || !fs::is_directory(root, failed)) {
    return fail("mcp", flags.json,
                {.message = "there is no directory '" + flags.root + "'",
                 .fix = "give the directory that holds the kernel projects",
                 .code = workflow::codes::usage_command_line});
  }
  const std::string program = fs::read_symlink("/proc/self/exe", failed).string();
  if (flags.config || flags.json) {
    const workflow::Answer answer = answer_of("mcp", flags.json, 0, "", "cudadent brief");
    std::cout << (flags.json ? workflow::mcp::config_json(answer, program, root.string())
                             : workflow::mcp::config_text(program, root.string()));
    return 0;
  }
  const workflow::mcp::ServerOptions options{
      .root = root.string(),
      .version = CUDADENT_VERSION,
      .answer_within = std::chrono::milliseconds(static_cast<long>(flags.answer_within_seconds * 1000))};
  const auto served = workflow::mcp::serve(options, program);
  return served ? 0 : fail("mcp", flags.json, served.error());
}

constexpr const char* manual =
    R"(A server that an agent's client starts and talks to: one JSON message a line on standard input and output, the
protocol of 2026-07-28 and the handshake of 2025-11-25 and 2025-06-18. Its tools are brief, status, gate, profile,
advise, try, compare and journal; each is the command of that name, in a process of its own, on projects below ROOT
and nowhere else. A call that takes longer than --answer-within answers with a job to wait for. When the client goes
away, so does everything that was started for it. What kernels print is quoted as data.

Examples:
  cudadent mcp --config > .mcp.json                  for clients that read that file, Claude Code among them
  claude mcp add cudadent -- cudadent mcp "$PWD"     the same by its command line
  cudadent mcp ~/kernels                             what a client runs)";

}  // namespace

Command mcp_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "mcp",
          .about = "Tools for agents, over the Model Context Protocol on stdio",
          .manual = manual,
          .options = {{.names = "root",
                       .value = &flags->root,
                       .about = "Directory whose projects the client may use",
                       .shows_default = true},
                      {.names = "--answer-within",
                       .value = &flags->answer_within_seconds,
                       .about = "Most seconds until a call is answered, if only with a job",
                       .shows_default = true,
                       .range = {{0.1, 45.0}}},
                      {.names = "--config",
                       .value = &flags->config,
                       .about = "Serve nothing; print what a client's configuration wants"},
                      json_option(flags->json, "Serve nothing; the configuration and the tools as JSON")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
