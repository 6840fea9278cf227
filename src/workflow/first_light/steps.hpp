// The steps of a first light as a table: what each starts, and how long it is expected to take.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/result.hpp"
#include "workflow/device/card.hpp"
#include "workflow/first_light/first_light.hpp"

namespace flashmoe::workflow {

struct StepPlace {
  const FirstLightRequest& request;
  std::string device{};
  std::string work{};  // a directory of the run's own, gone with it
};

struct StepCommand {
  std::vector<std::string> argv{};
  std::string directory{};
  std::vector<std::string> environment{};
};

struct Told {
  StepState state = StepState::left_out;
  std::string why{};
};

struct StepRow {
  const char* name;
  const char* about;
  const char* file;  // of the bundle
  double seconds;
  double quick_seconds;
  bool is_timed;  // its figures are times of the card
  Result<StepCommand> (*command)(const StepPlace& place);
  Told (*told)(const Finished& ran);  // what became of it, out of what it printed
};

inline constexpr const char* times_file = "times.jsonl";
inline constexpr const char* peers_file = "peers.jsonl";

[[nodiscard]] std::span<const StepRow> all_light_steps();

// The times in the bundle beside what docs/predictions foretold for this card.
[[nodiscard]] std::vector<BesidePrediction> beside_predictions(const Card& card, const std::string& bundle,
                                                               bool rehearsal, std::vector<std::string>& notes);

}  // namespace flashmoe::workflow
