// Tests only: a program holds the tests of several sources.
#pragma once

namespace flashmoe {

// All tests, or with --source=foo_test.cpp those that stand in that file; a filter holds within them.
[[nodiscard]] int run_tests(int argc, char** argv);

}  // namespace flashmoe
