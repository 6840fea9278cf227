// The main of tests that run sessions: their program is also the worker that a session starts.
#include "support/run_tests_for_test.hpp"
#include "workflow/runner/worker.hpp"

int main(int argc, char** argv) {
  using namespace flashmoe;
  return workflow::is_worker_call(argc, argv) ? workflow::worker_main() : run_tests(argc, argv);
}
