#include "workflow/device/card_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "runtime/nvml.hpp"
#include "support/json_text.hpp"

namespace flashmoe::workflow {
namespace {

template <class Value>
void put(Json& json, const char* name, const std::optional<Value>& value) {
  if (value) json[name] = *value;
}

}  // namespace

struct CardWatch::State {
  std::string pci{};
  std::shared_ptr<const runtime::Nvml> nvml{};
  std::string blind{};  // why nothing is seen
  std::vector<std::string> doubts_at_first{};

  [[nodiscard]] std::optional<runtime::CardState> now() const {
    if (nvml == nullptr) return std::nullopt;
    auto state = nvml->state(pci);
    if (!state) return std::nullopt;
    return *state;
  }
};

CardWatch::CardWatch(const Card& card) : state_(std::make_unique<State>()) {
  state_->pci = card.pci;
  auto nvml = runtime::Nvml::open(runtime::nvml_library(card.driver));
  if (nvml)
    state_->nvml = *nvml;
  else
    state_->blind = nvml.error().to_string();
  state_->doubts_at_first = doubts();
}

CardWatch::~CardWatch() = default;
CardWatch::CardWatch(CardWatch&&) noexcept = default;
CardWatch& CardWatch::operator=(CardWatch&&) noexcept = default;

std::string CardWatch::state_json() const {
  Json json = Json::object();
  if (!state_->blind.empty()) json["not_told"] = state_->blind;
  const auto now = state_->now();
  if (!now) return one_line(json);
  put(json, "driver", now->driver_version);
  put(json, "uuid", now->uuid);
  put(json, "sm_clock_mhz", now->sm_clock_mhz);
  put(json, "max_sm_clock_mhz", now->max_sm_clock_mhz);
  put(json, "memory_clock_mhz", now->memory_clock_mhz);
  put(json, "temperature_celsius", now->temperature_celsius);
  put(json, "power_watts", now->power_watts);
  put(json, "power_limit_watts", now->power_limit_watts);
  put(json, "gpu_utilization_percent", now->gpu_utilization_percent);
  put(json, "persistence_mode", now->persistence_mode);
  put(json, "ecc", now->ecc);
  put(json, "mig", now->mig);
  if (now->clock_reasons) json["clock_reasons"] = runtime::clock_reason_words(*now->clock_reasons);
  if (now->processes) json["processes"] = now->processes->size();
  return one_line(json);
}

std::string CardWatch::throttled_by() const {
  const auto now = state_->now();
  if (!now || !now->clock_reasons || !runtime::spoils_times(*now->clock_reasons)) return "";
  std::string words;
  for (const runtime::ClockReason& reason : runtime::all_clock_reasons())
    if (reason.spoils_times && (*now->clock_reasons & reason.bit) != 0)
      words += (words.empty() ? "" : ", ") + std::string(reason.words);
  return words.empty() ? "an unknown reason" : words;
}

std::string CardWatch::other_users() const {
  const auto now = state_->now();
  std::string words;
  if (!now || !now->processes) return words;
  for (const runtime::CardProcess& process : *now->processes)
    if (process.pid != static_cast<unsigned>(::getpid()))
      words += fmt::format("{}process {}", words.empty() ? "" : ", ", process.pid);
  return words;
}

std::vector<std::string> CardWatch::doubts() const {
  std::vector<std::string> doubts;
  if (const std::string reason = throttled_by(); !reason.empty())
    doubts.push_back("the card is throttled (" + reason + ")");
  if (const std::string others = other_users(); !others.empty())
    doubts.push_back("somebody else uses the card (" + others + ")");
  return doubts;
}

std::vector<std::string> CardWatch::doubts_since_begun() const {
  std::vector<std::string> all = state_->doubts_at_first;
  for (std::string& doubt : doubts())
    if (std::find(all.begin(), all.end(), doubt) == all.end()) all.push_back(std::move(doubt));
  return all;
}

}  // namespace flashmoe::workflow
