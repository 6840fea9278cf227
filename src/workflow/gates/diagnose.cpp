#include "workflow/gates/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "workflow/runner/element.hpp"

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds variant_limit{60'000};
constexpr int max_swapped_inputs = 12;  // runs of the reference, each as long as the first

// Whether what the kernel wrote is what the reference now says, for every output that was wrong.
bool explains(const Project& project, const WrongResult& wrong, const Session& reference) {
  for (const Judgement& judgement : wrong.judgements) {
    for (std::size_t i = 0; i < wrong.layout.tensors.size(); ++i) {
      if (wrong.layout.tensors[i].name != judgement.tensor) continue;
      const Judgement again = judge(wrong.layout.tensors[i], reference.tensor(0, i), wrong.got[i],
                                    project.tensors[i].tolerance, wrong.magnitude_matters);
      if (!again.ok()) return false;
    }
  }
  return true;
}

bool runs(Session& reference, const std::string& variant) {
  reference.seal_inputs_and_poison();
  return reference.run(0, 1, variant_limit, variant).ok();
}

// The bytes of one input as if it had been stored with axes a and b swapped: what a kernel with that mistake reads.
std::vector<std::byte> with_axes_swapped(const TensorLayout& layout, std::span<const std::byte> data, std::size_t a,
                                         std::size_t b) {
  std::vector<std::byte> swapped(data.begin(), data.end());
  const std::size_t size = bytes_per_element(layout.dtype);
  auto shape = layout.shape;
  std::swap(shape[a], shape[b]);
  for (std::int64_t i = 0; i < layout.count; ++i) {
    auto position = layout.position(i);
    std::swap(position[a], position[b]);
    std::int64_t linear = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) linear = linear * shape[axis] + position[axis];
    std::memcpy(swapped.data() + layout.element_offset(i), data.data() + layout.element_offset(linear), size);
  }
  return swapped;
}

Diagnosis try_swapped_inputs(const Project& project, const WrongResult& wrong, Session& reference) {
  int tried = 0;
  for (std::size_t i = 0; i < wrong.layout.tensors.size(); ++i) {
    const TensorLayout& layout = wrong.layout.tensors[i];
    if (layout.role != TensorRole::input) continue;
    const auto data = reference.tensor(0, i);
    const std::vector<std::byte> original(data.begin(), data.end());
    for (std::size_t a = 0; a < layout.shape.size(); ++a) {
      for (std::size_t b = a + 1; b < layout.shape.size(); ++b) {
        if (layout.shape[a] < 2 || layout.shape[b] < 2 || ++tried > max_swapped_inputs) continue;
        const auto swapped = with_axes_swapped(layout, original, a, b);
        std::memcpy(data.data(), swapped.data(), swapped.size());
        const bool matches = runs(reference, "") && explains(project, wrong, reference);
        std::memcpy(data.data(), original.data(), original.size());
        if (!matches) continue;
        return {"pattern", "swapped_input",
                fmt::format("input '{}' is read with axes {} and {} swapped", layout.name, a, b),
                fmt::format("use stride[{}] of '{}' for axis {} and stride[{}] for axis {}", a, layout.name, a, b, b)};
      }
    }
  }
  return {};
}

Diagnosis first_diverging_stage(const Project& project, const WrongResult& wrong) {
  std::vector<std::string> right;
  for (std::size_t i = 0; i < wrong.layout.tensors.size(); ++i) {
    const TensorLayout& layout = wrong.layout.tensors[i];
    if (layout.role != TensorRole::stage) continue;
    const Judgement stage = judge(layout, wrong.expected[i], wrong.got[i], project.tensors[i].tolerance);
    if (stage.unwritten == stage.count) continue;  // the kernel does not show this one
    if (stage.ok()) {
      right.push_back(layout.name);
      continue;
    }
    const std::string before =
        right.empty() ? "the first stage it shows" : fmt::format("stage '{}' before it is right", right.back());
    return {"stage", layout.name, fmt::format("stage '{}' diverges ({}): {}", layout.name, before, describe(stage)),
            fmt::format("look at how '{}' is computed", layout.name)};
  }
  if (!right.empty()) {
    return {"stage", "output", fmt::format("all stages are right up to '{}'; the output is not", right.back()),
            "look at what follows that stage"};
  }
  return {};
}

}  // namespace

Tensors copy_outputs(const Session& session, int set) {
  Tensors copies;
  for (std::size_t i = 0; i < session.layout().tensors.size(); ++i) {
    const auto bytes = session.tensor(set, i);
    const bool input = session.layout().tensors[i].role == TensorRole::input;
    copies.emplace_back(bytes.begin(), input ? bytes.begin() : bytes.end());
  }
  return copies;
}

Diagnosis diagnose(const Project& project, const WrongResult& wrong, Session& reference) {
  const bool nothing_written = std::all_of(wrong.judgements.begin(), wrong.judgements.end(),
                                           [](const Judgement& j) { return j.unwritten == j.count; });
  if (!nothing_written) {
    for (const Hypothesis& hypothesis : project.hypotheses) {
      if (runs(reference, hypothesis.variant) && explains(project, wrong, reference)) {
        return {"hypothesis", hypothesis.variant, hypothesis.says, hypothesis.fix};
      }
    }
  }
  if (Diagnosis pattern = find_pattern(wrong, project); !pattern.kind.empty() && pattern.name != "part") return pattern;
  if (!nothing_written) {
    if (Diagnosis swapped = try_swapped_inputs(project, wrong, reference); !swapped.kind.empty()) return swapped;
  }
  if (Diagnosis stage = first_diverging_stage(project, wrong); !stage.kind.empty()) return stage;
  if (Diagnosis pattern = find_pattern(wrong, project); !pattern.kind.empty()) return pattern;
  const std::size_t declared = project.hypotheses.size();
  std::string cause = "no constant factor, swapped axes or shift explains it";
  if (declared > 0) {
    cause += fmt::format(", nor {} declared {}", declared == 1 ? "the" : fmt::format("any of the {}", declared),
                         declared == 1 ? "hypothesis" : "hypotheses");
  }
  return {"unknown", "", cause,
          "declare stages in cudadent.toml and let the kernel write them: the first one that diverges is then named"};
}

}  // namespace flashmoe::workflow
