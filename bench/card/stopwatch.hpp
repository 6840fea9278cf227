// Times on the card: events on a stream of its own, captured graphs, and the host's clock.
#pragma once

#include "card.hpp"
#include "runtime/timing.hpp"

namespace flashmoe::card {

using Work = std::function<Result<Done>()>;  // queues something on Stopwatch::stream()

class Stopwatch {
 public:
  explicit Stopwatch(const Card& card);

  [[nodiscard]] const runtime::Stream& stream() const { return stream_; }

  // Both in microseconds, and when they return the work is done.
  [[nodiscard]] double between_events(const Work& work);
  [[nodiscard]] double by_the_host(int calls, const Work& work) const;

  // The work again and again until an idle card's clocks have risen; a virtual one has none.
  void settle(const Work& work);
  [[nodiscard]] runtime::Graph capture(int calls, const Work& work) const;
  // Queued: twice as many bytes as L2 holds are written.
  void overwrite_l2() const;

 private:
  const Card& card_;
  runtime::Stream stream_;
  runtime::Event begin_, end_;
  runtime::Buffer more_than_l2_;
};

}  // namespace flashmoe::card
