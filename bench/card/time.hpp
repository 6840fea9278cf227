// The problems of the table, timed on the card.
//
// Three times of each, in microseconds: `kernel_us`, a graph of calls between two events, divided by their number;
// `cold_us`, one call between two events after L2 was overwritten; `whole_us`, by the host's clock, calls one after
// another until the last has ended. Each is a median, with the shortest and the longest round as its spread. The plan
// is kept, and so is the workspace (FMS_WORKSPACE_READY): a call is one launch.
#pragma once

#include "card.hpp"
#include "problems.hpp"

namespace flashmoe::card {

struct TimeOptions {
  bool quick = false;
  std::optional<int> rounds{};  // medians of so many; 7, and on a virtual GPU, whose times mean nothing, 1
};

// Whether every problem was timed.
[[nodiscard]] bool time_kernels(const Card& card, const TimeOptions& options, Limit limit);

// The plan and the kernel of each problem; nothing runs.
void tell_plans(const Card& card);

// One KV head of a problem, once, with the plan of all of them: what predictions are made from. Lists of unequal
// batches are made for all sequences together: such a problem runs whole.
void run_once(const Card& card, const std::string& name);

}  // namespace flashmoe::card
