#include "support/run_tests_for_test.hpp"

int main(int argc, char** argv) {
  return flashmoe::run_tests(argc, argv);
}
