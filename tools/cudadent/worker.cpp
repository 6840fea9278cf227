// cudadent worker: hidden; the process in which a kernel runs.
#include "workflow/runner/worker.hpp"

#include "commands.hpp"

namespace flashmoe::tools {

Command worker_command() {
  return {.name = "worker",
          .about = "Runs a kernel for another cudadent process",
          .manual = "",
          .run = [] { return workflow::worker_main(); },
          .is_hidden = true};
}

}  // namespace flashmoe::tools
