#include "workflow/runner/judge_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "workflow/runner/judge.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double least_limit_seconds = 60;  // simple and precise takes its time

Diagnostic of_the_reference(const RunError& error) {
  Diagnostic problem = error.diagnostic;
  problem.code = codes::reference_failed;
  return problem;
}

}  // namespace

Result<std::optional<Finding>> wrong_output(const Project& project, const Workload& workload, const Session& ran,
                                            const Runnable& reference) {
  Session session;
  RunError error = session.start(project, reference, true);
  if (error.failure == Failure::none) error = session.bind(project, workload.values, workload.name, 1);
  if (error.failure != Failure::none) return of_the_reference(error);
  session.copy_inputs(0, ran, 0);
  session.seal_inputs_and_poison();
  const double limit = std::max(least_limit_seconds, project.call_limit_seconds);
  const Block block = session.run(0, 1, std::chrono::milliseconds(static_cast<long>(limit * 1e3)));
  if (!block.ok()) return of_the_reference(block.error);
  const auto& tensors = session.layout().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role != TensorRole::output) continue;
    const Judgement judgement = judge(tensors[i], session.tensor(0, i), ran.tensor(0, i), project.tensors[i].tolerance);
    if (judgement.ok()) continue;
    return std::optional<Finding>(
        {.severity = Severity::error,
         .group = "correctness",
         .what = fmt::format("the result is wrong in workload {}: {}", workload.name, describe(judgement)),
         .fix = "mend it first: cudadent gate --until correctness says what is wrong; --debug profiles it all the same",
         .code = codes::correctness_wrong_result});
  }
  return std::optional<Finding>();
}

}  // namespace flashmoe::workflow
