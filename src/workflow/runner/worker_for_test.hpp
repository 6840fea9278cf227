// Tests only: a program that runs sessions is also the worker that they start.
#pragma once

#include <gtest/gtest.h>

#include "workflow/runner/worker.hpp"

namespace flashmoe::workflow {

[[nodiscard]] inline int run_tests_or_worker(int argc, char** argv) {
  if (is_worker_call(argc, argv)) return worker_main();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace flashmoe::workflow
