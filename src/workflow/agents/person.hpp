// A person at the prompt: sees the bottleneck and the moves there are, and says which one to try, or edits the kernel
// in the working tree and says so.
#pragma once

#include <iosfwd>

#include "workflow/optimize/proposal.hpp"

namespace flashmoe::workflow {

// `project` is the user's own. Lines are read from `in` until its end, which means "stop"; both outlive what is
// returned.
[[nodiscard]] Propose propose_by_person(const Project& project, std::istream& in, std::ostream& out);

}  // namespace flashmoe::workflow
