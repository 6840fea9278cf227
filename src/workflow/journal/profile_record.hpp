// The record of a profile: the one bottleneck, and what it was named from.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "workflow/journal/prices.hpp"
#include "workflow/verdict/profile_facts.hpp"

namespace flashmoe::workflow {

struct ProfileRecord {
  static constexpr const char* kind = "profile";
  std::string summary{};
  std::optional<Prices> cost_per_hour{};
  int threads = 1;
  std::map<std::string, double> point{};  // of the project's tunables; empty: it has none
  ProfileFacts profile{};
  bool operator==(const ProfileRecord&) const = default;
};

}  // namespace flashmoe::workflow
