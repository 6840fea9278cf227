// What an hour costs, and what was spent, in dollars.
#pragma once

namespace flashmoe::workflow {

struct Prices {
  double machine = 0, agent = 0;  // $ an hour
  bool operator==(const Prices&) const = default;
};

struct Spent {
  double machine = 0, agent = 0, total = 0;  // $
  bool operator==(const Spent&) const = default;
};

[[nodiscard]] inline Spent cost_of(double seconds, const Prices& prices) {
  const double machine = seconds / 3600 * prices.machine;
  const double agent = seconds / 3600 * prices.agent;
  return {.machine = machine, .agent = agent, .total = machine + agent};
}

}  // namespace flashmoe::workflow
