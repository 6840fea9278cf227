// What is timed of a block of calls on a card. Each is another time, and none is ever added to another.
#pragma once

#include <optional>
#include <string_view>

namespace flashmoe::workflow {

enum class Timing {
  kernel,  // events around one graph of all calls, their inputs in L2: what the kernels take
  cold,    // events around each call, L2 overwritten before it
  call,    // the host's clock around calls launched one by one and awaited together: what a program sees
};

[[nodiscard]] constexpr const char* name_of(Timing timing) {
  switch (timing) {
    case Timing::kernel:
      return "kernel";
    case Timing::cold:
      return "cold";
    case Timing::call:
      break;
  }
  return "call";
}

[[nodiscard]] constexpr std::optional<Timing> timing_of(std::string_view name) {
  for (const Timing timing : {Timing::kernel, Timing::cold, Timing::call})
    if (name == name_of(timing)) return timing;
  return std::nullopt;
}

}  // namespace flashmoe::workflow
