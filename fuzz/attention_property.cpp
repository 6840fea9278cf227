#include "attention_property.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "support/judge.hpp"
#include "support/random_problem.hpp"

namespace flashmoe::fuzz {

[[noreturn]] void fail(const std::string& what, const std::string& problem) {
  std::fprintf(stderr, "\nFINDING: %s\n  %s\n", what.c_str(), problem.c_str());
  std::abort();
}

const std::vector<testing::Context>& contexts() {
  static const std::vector<testing::Context> all = [] {
    std::vector<testing::Context> made;
    for (const fms_cpu_isa isa : testing::available_isas()) {
      made.push_back(testing::make_context(isa));
    }
    return made;
  }();
  return all;
}

void check_error(fms_status status, const fms_error& error) {
  const bool terminated = memchr(error.argument, 0, sizeof error.argument) != nullptr &&
                          memchr(error.message, 0, sizeof error.message) != nullptr;
  if (!terminated || error.code != status || std::strlen(error.message) < 10) {
    fail("an error that does not help", "status " + std::to_string(status));
  }
  if (status != FMS_INVALID_ARGUMENT && status != FMS_NOT_SUPPORTED) {
    fail("an error that is not the caller's", testing::to_string(error));
  }
  if (status == FMS_INVALID_ARGUMENT && error.argument[0] == '\0') {
    fail("an error without its argument", testing::to_string(error));
  }
}

testing::AttentionCase make_case(const FuzzedProblem& fuzzed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  testing::Random random(fuzzed.seed);
  const auto non_finite = [&] { return random.chance(0.5) ? kInfinity * (random.chance(0.5) ? 1 : -1) : std::nan(""); };
  return testing::AttentionCase(fuzzed.problem, fuzzed.indices, [&](testing::Tensor tensor) {
    if (tensor == testing::Tensor::kMask) {
      return random.chance(0.6) ? 1.0 : 0.0;
    }
    const double value = random.normal();
    const bool rare = random.chance(0.003);
    switch (fuzzed.values) {
      case Values::kNormal:
        return value;
      case Values::kPeaked:
        return tensor == testing::Tensor::kQ ? 10 * value : value;
      case Values::kNonFiniteScores:  // never together with kNonFiniteV: which of the two rules wins is not defined
        if (tensor == testing::Tensor::kBias && random.chance(0.3)) {
          return -kInfinity;
        }
        return rare && tensor != testing::Tensor::kV && tensor != testing::Tensor::kSinks ? non_finite() : value;
      case Values::kNonFiniteV:
        return rare && tensor == testing::Tensor::kV ? non_finite() : value;
    }
    return value;
  });
}

void check_answer(const testing::AttentionCase& one) {
  const testing::Judgement judgement = testing::judge(one, testing::OracleAnswer(one));
  if (!judgement.complaint.empty()) {
    fail(judgement.complaint, one.describe());
  }
  if (const auto stray = one.stray_write()) {
    fail(*stray, one.describe());
  }
}

}  // namespace flashmoe::fuzz

// libomp keeps its teams until the process ends, and the leak check would blame us for them.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libomp.so\n";
}
