#include "stopwatch.hpp"

#include "cuda/gpu_run.hpp"

namespace flashmoe::card {

using testing::must;

namespace {

Result<Done> repeat(int calls, const Work& work) {
  for (int i = 0; i < calls; ++i)
    if (auto done = work(); !done) return done;
  return Done{};
}

runtime::Buffer more_than_l2(const Card& card) {
  const int l2_bytes = card.attribute(runtime::cuda::DeviceAttribute::l2_bytes);
  return must(runtime::Buffer::create(card.device(), 2 * static_cast<std::size_t>(l2_bytes)));
}

}  // namespace

Stopwatch::Stopwatch(const Card& card)
    : card_(card),
      stream_(must(runtime::Stream::create(card.device()))),
      begin_(must(runtime::Event::create(card.device()))),
      end_(must(runtime::Event::create(card.device()))),
      more_than_l2_(more_than_l2(card)) {}

double Stopwatch::between_events(const Work& work) {
  must(begin_.record(stream_));
  must(work());
  must(end_.record(stream_));
  must(end_.synchronize());
  return 1e6 * must(runtime::Event::seconds_between(begin_, end_));
}

double Stopwatch::by_the_host(int calls, const Work& work) const {
  const auto begin = std::chrono::steady_clock::now();
  must(repeat(calls, work));
  must(stream_.synchronize());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

void Stopwatch::settle(const Work& work) {
  constexpr std::chrono::milliseconds long_enough{100};
  const auto begin = std::chrono::steady_clock::now();
  do {
    static_cast<void>(between_events(work));
  } while (!card_.is_virtual() && std::chrono::steady_clock::now() - begin < long_enough);
}

runtime::Graph Stopwatch::capture(int calls, const Work& work) const {
  return must(runtime::Graph::capture(stream_, [&] { return repeat(calls, work); }));
}

void Stopwatch::overwrite_l2() const {
  constexpr unsigned pattern = 0x5a5a5a5a;
  const auto code = card_.driver().call().fill_words_async(more_than_l2_.address(), pattern,
                                                           more_than_l2_.bytes() / sizeof(pattern), stream_.handle());
  must(card_.driver().check(code, "cuMemsetD32Async"));
}

}  // namespace flashmoe::card
