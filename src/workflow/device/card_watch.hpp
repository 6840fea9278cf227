// The card's own account of itself while it is timed: clocks, why they are held back, who else is on it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workflow/device/card.hpp"

namespace flashmoe::workflow {

class CardWatch {
 public:
  // Without NVML it sees nothing, and says so once.
  explicit CardWatch(const Card& card);
  ~CardWatch();
  CardWatch(CardWatch&&) noexcept;
  CardWatch& operator=(CardWatch&&) noexcept;
  CardWatch(const CardWatch&) = delete;
  CardWatch& operator=(const CardWatch&) = delete;

  [[nodiscard]] std::string state_json() const;    // everything NVML tells now
  [[nodiscard]] std::string throttled_by() const;  // "power cap"; empty: by nothing that makes a time not its own
  [[nodiscard]] std::string other_users() const;   // "process 4242"; empty: nobody, or not told
  [[nodiscard]] std::vector<std::string> doubts() const;  // why a time taken now would not be the card's
  // The same of a time taken since it began to watch: those of then, and what came up.
  [[nodiscard]] std::vector<std::string> doubts_since_begun() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flashmoe::workflow
