// A counter of one call, of two versions of a kernel.
#pragma once

#include <string>

namespace flashmoe::workflow {

struct CounterChange {
  std::string name{};
  double from = 0, to = 0;
  bool operator==(const CounterChange&) const = default;
};

}  // namespace flashmoe::workflow
