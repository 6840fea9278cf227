// cudadent: flags -> workflow -> exit code. Every command is a function in a file of its own.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>

#include "answer.hpp"
#include "commands.hpp"
#include "parse.hpp"
#include "support/process.hpp"
#include "workflow/verdict/verdict.hpp"

namespace {

constexpr const char* manual =
    R"(A kernel project is a directory with a cudadent.toml: a kernel, a reference that says what is right, a baseline
to beat, and workloads. The gates ask in order whether the machine is well, whether it builds, whether it is
correct and whether it is fast; none is skipped, and each says what to do when it does not hold. Data goes to
stdout, progress to stderr; every command has --json (--json=short: at most 4 kB) and --help. Without a command it
says where the project in this directory stands.

Examples:
  mkdir my_kernel && cd my_kernel
  cudadent new        a project that works, to begin with
  cudadent gate       environment, build, correctness, performance, profile: a verdict
  cudadent compare    is the working tree faster than the last commit?)";

const flashmoe::tools::Program cudadent{
    .name = "cudadent",
    .about = "The gated workflow for kernels: is it sound, does it build, is it right, is it fast?",
    .manual = manual,
    .version = "cudadent " CUDADENT_VERSION,
    .bare = "status"};

// Output that was lost (a full disk, a closed pipe) must not look like success.
int after_flush(int exit_code) {
  std::cout.flush();
  const bool lost = !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost) return exit_code;
  std::fprintf(stderr, "cudadent: the output could not be written: %s\n", std::strerror(errno));
  return exit_code == 0 ? static_cast<int>(flashmoe::workflow::ExitCode::could_not_run) : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace flashmoe::tools;
  flashmoe::install_interrupt_handler();
  remember_command_line(argc, argv);
  try {
    return after_flush(run_command_line(cudadent, all_commands(), argc, argv));
  } catch (const std::exception& error) {  // memory, a full disk: what no command foresaw
    std::fprintf(stderr, "cudadent: %s\n", error.what());
    return static_cast<int>(flashmoe::workflow::ExitCode::could_not_run);
  }
}
