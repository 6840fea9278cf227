// How many warp instructions a launch may take on a virtual GPU before it counts as hung. What the launches of earlier
// cases needed tells, scaled up to the case at hand: a kernel that loops for ever is stopped after seconds, and says
// where it was, which a worker that is killed cannot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

class InstructionBudget {
 public:
  // `report`: where the virtual GPU tells what launches did; empty: nowhere, and every case is a first one.
  explicit InstructionBudget(std::string report) : report_(std::move(report)) {}
  // Of a case of this size that is about to run; those before it have run. Sizes are comparable within a project.
  [[nodiscard]] std::uint64_t next(double size);

 private:
  struct Case {
    double size = 0;
    double most_instructions = 0;  // of one launch
  };
  void read_what_ran();

  std::string report_;
  std::uint64_t read_bytes_ = 0;
  std::vector<Case> cases_{};
};

// Elements of all tensors, or the product of the parameters where that is more.
[[nodiscard]] double size_of_case(const Project& project, const Values& values);

}  // namespace flashmoe::workflow
