// The counters of a card under the names that the virtual GPU's reports use, so that the same rules read both. A table:
// CUPTI's and ncu's names, what the meaning differs in, and what no card tells. What is missing is said to be, never 0.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct CardMetric {
  const char* counter;              // in a report: "vgpu__shared_wavefronts.sum"
  std::array<const char*, 2> card;  // on a card; where there are two they are added up
  double factor = 1;                // sectors to bytes
  const char* unit = "";
  const char* differs = "";  // from what a virtual GPU counts under that name; empty: the same
  int first_sm = 0;          // 89: compute capability 8.9
  int last_sm = 999;

  [[nodiscard]] bool is_for(int sm) const { return first_sm <= sm && sm <= last_sm; }
};

// A name of the virtual GPU's reports that no counter of a card stands for.
struct Uncounted {
  const char* counter;
  const char* why;
};

[[nodiscard]] std::span<const CardMetric> card_metrics();
[[nodiscard]] std::span<const Uncounted> uncounted_on_a_card();

// What to ask CUPTI or ncu for on a GPU of this compute capability.
[[nodiscard]] std::vector<std::string> wanted_card_metrics(int sm);

struct CardCounter {
  double value = 0;
  const CardMetric* metric = nullptr;
};
struct CardCounters {
  std::map<std::string, CardCounter> counted{};
  std::map<std::string, std::string> missing{};  // and why
};
// `values`: by the card's names, only what was counted.
[[nodiscard]] CardCounters card_counters(const std::map<std::string, double>& values, int sm);

}  // namespace flashmoe::workflow
