// Why is a result wrong? The reference is run again with each declared mistake; then mistakes every kernel can make are
// tried; else the first stage that diverges is named.
#pragma once

#include <string>
#include <vector>

#include "workflow/project/project.hpp"
#include "workflow/runner/judge.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/correctness_facts.hpp"

namespace flashmoe::workflow {

// The tensors of one call, in the project's order; inputs are empty.
using Tensors = std::vector<std::vector<std::byte>>;

struct WrongResult {
  const Layout& layout;
  const Tensors& expected;
  const Tensors& got;
  std::vector<Judgement> judgements;  // of the outputs that are wrong
  bool magnitude_matters = false;
};

// `reference` is bound to the workload and holds the inputs of the wrong call in set 0; it is left in any state.
[[nodiscard]] Diagnosis diagnose(const Project& project, const WrongResult& wrong, Session& reference);

// What can be seen in the numbers alone, without running anything; kind is empty when nothing fits.
[[nodiscard]] Diagnosis find_pattern(const WrongResult& wrong, const Project& project);

// Copies outputs and stages of one set.
[[nodiscard]] Tensors copy_outputs(const Session& session, int set);

}  // namespace flashmoe::workflow
