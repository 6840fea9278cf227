// A profile of a call on a real card, in the form in which a virtual GPU's are: the same reports, the same rules. The
// counters are CUPTI's or ncu's; where nobody may count, what is always known stands alone, and the profile is marked
// as degraded. Never run on a card: rehearsed on the virtual driver.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel_facts.hpp"
#include "workflow/card/static_sass.hpp"
#include "workflow/gpu/profile.hpp"

namespace flashmoe::workflow {

// One launch, and what anybody knows of it.
struct CardLaunch {
  std::string kernel{};  // its symbol
  std::string name{};    // as it stands in the source; empty: the symbol
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::int64_t dynamic_shared_bytes = 0;
  runtime::KernelFacts facts{};             // 0 for what nobody said
  std::map<std::string, double> counted{};  // by the card's own names
  std::optional<StaticSass> sass{};         // unset: there was no cubin or no nvdisasm
  std::optional<double> event_seconds{};    // measured by the caller; unset: it was not
};

enum class CountedBy { cupti, ncu, nobody };
[[nodiscard]] const char* name_of(CountedBy who);

struct CardCall {
  std::string project{};
  std::string device{};  // "cuda:0"
  std::string workload{};
  std::string image_hash{};
  runtime::DeviceFacts card{};
  CountedBy counted_by = CountedBy::nobody;
  Diagnostic why_nobody{};  // CountedBy::nobody: the reason and what helps
  // Of the call's tensors: what has to move at least, were each read or written once.
  double input_bytes = 0, output_bytes = 0;
  std::optional<double> event_seconds{};  // of the whole call
  std::vector<CardLaunch> launches{};
};

[[nodiscard]] ProfileRun card_profile(const CardCall& call);

}  // namespace flashmoe::workflow
