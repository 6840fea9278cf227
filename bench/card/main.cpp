// The library's CUDA kernels on a card: are they right, and how long do they take. Through the C ABI, on the system's
// driver or the one that FLASHMOE_DRIVER names; a line of JSON for each answer. On a virtual GPU every line says
// "rehearsal": true, and no time in it means anything.
//
//   flashmoe_card --check [--problems quick] [--limit SECONDS]
//       every shipped kernel against the fp64 oracle, by the bounds of tests/support/judge.cpp
//   flashmoe_card --time [--problems quick] [--limit SECONDS] [--rounds N]
//       the table of problems (python/flashmoe_science/card_problems.json): kernel, cold, whole call (time.hpp)
//   flashmoe_card --plans         the plan and the kernel's SHA-256 of each problem, without running it
//   flashmoe_card --once NAME     one head of a problem, once, with the plan of all: for predictions
//
// Exit code 0: done, and everything was right; 1: a kernel was wrong; 2: usage; 3: --limit left something out, in the
// last line; 4: it could not run.
#include <charconv>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string_view>

#include "card.hpp"
#include "check.hpp"
#include "time.hpp"

namespace {

using namespace flashmoe::card;

enum ExitCode { holds = 0, wrong = 1, usage = 2, incomplete = 3, could_not_run = 4 };
enum class Task { none, check, time, plans, once };

struct Options {
  Task task = Task::none;
  std::string once{};
  TimeOptions timing{};
  std::optional<double> limit_s{};
};

template <class Number>
bool read_number(std::string_view text, std::optional<Number>& to) {
  Number value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !(value > 0)) return false;
  to = value;
  return true;
}

bool read_option(std::string_view name, std::string_view value, Options& options) {
  if (name == "--problems" && (value == "quick" || value == "all")) {
    options.timing.quick = value == "quick";
    return true;
  }
  if (name == "--once" && options.task == Task::none) {
    options.task = Task::once;
    options.once = value;
    return true;
  }
  if (name == "--limit") return read_number(value, options.limit_s);
  return name == "--rounds" && read_number(value, options.timing.rounds);
}

std::optional<Options> parse(int count, char** words) {
  constexpr std::pair<std::string_view, Task> tasks[] = {
      {"--check", Task::check}, {"--time", Task::time}, {"--plans", Task::plans}};
  Options options;
  for (int i = 1; i < count; ++i) {
    Task task = Task::none;
    for (const auto& [word, named] : tasks)
      if (word == words[i]) task = named;
    if (task != Task::none && options.task == Task::none) {
      options.task = task;
    } else if (task != Task::none || i + 1 == count || !read_option(words[i], words[i + 1], options)) {
      return std::nullopt;
    } else {
      ++i;
    }
  }
  return options.task == Task::none ? std::nullopt : std::optional(options);
}

int run(const Options& options) {
  const Card card;
  const Limit limit(options.limit_s);
  card.say(card.description());
  switch (options.task) {
    case Task::check: {
      const CheckResult result = check_kernels(card, options.timing.quick, limit);
      return result.failed > 0 ? wrong : result.is_complete ? holds : incomplete;
    }
    case Task::time:
      return time_kernels(card, options.timing, limit) ? holds : incomplete;
    case Task::plans:
      tell_plans(card);
      return holds;
    case Task::once:
      run_once(card, options.once);
      return holds;
    case Task::none:
      break;
  }
  return usage;
}

}  // namespace

int main(int count, char** words) {
  const auto options = parse(count, words);
  if (!options) {
    std::cerr << "usage: flashmoe_card --check | --time | --plans | --once NAME [--problems all|quick] "
                 "[--limit SECONDS] [--rounds N]\n";
    return usage;
  }
  try {
    return run(*options);
  } catch (const std::invalid_argument& problem) {
    std::cerr << "flashmoe_card: " << problem.what() << '\n';
    return usage;
  } catch (const std::exception& problem) {
    std::cout << nlohmann::json{{"not_run", problem.what()}}.dump() << '\n';
    std::cerr << "flashmoe_card: " << problem.what() << '\n';
    return could_not_run;
  }
}
