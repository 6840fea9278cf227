// Lines of a journal as records.
#pragma once

#include <algorithm>
#include <future>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace flashmoe::workflow {

struct Record;

// Unset: the line does not read.
[[nodiscard]] std::optional<Record> record_in(std::string_view line);

// make(line) of every line, on as many threads as there are cores: parsing is what a long journal takes.
template <class Make>
auto of_each_line(const std::vector<std::string_view>& lines, Make make) {
  std::vector<decltype(make(lines.front()))> made(lines.size());
  constexpr std::size_t worth_a_thread = 1000;
  const std::size_t threads =
      std::clamp<std::size_t>(lines.size() / worth_a_thread, 1, std::max(1U, std::thread::hardware_concurrency()));
  const auto work = [&](std::size_t part) {
    for (std::size_t i = lines.size() * part / threads; i < lines.size() * (part + 1) / threads; ++i)
      made[i] = make(lines[i]);
  };
  std::vector<std::future<void>> others;
  for (std::size_t part = 1; part < threads; ++part) others.push_back(std::async(std::launch::async, work, part));
  work(0);
  for (std::future<void>& other : others) other.get();
  return made;
}

}  // namespace flashmoe::workflow
