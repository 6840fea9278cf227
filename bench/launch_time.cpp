// What a call costs on the host before the GPU hears of it: from fms_attention_run to the driver's launch, with a
// driver that only counts. People's small problems on an L4 are nearly all host time.
//
//   launch_time [--json]
//
// Exit code 0: the goal (a median of at most 1 us at S=128) holds; 1: it does not; 2: usage; 3: nothing was measured.
#include <cstdio>
#include <cstring>

#include "launch_times.hpp"
#include "support/simple_case.hpp"

namespace {

using flashmoe::testing::Call;
using flashmoe::testing::simple_problem;

constexpr double goal_ns = 1000;

struct Row {
  std::string name;
  bool plans_too;
  std::int64_t median_ns, p99_ns;
};

std::vector<Row> measure(const fms_context* context) {
  constexpr int warm_up = 2000, calls = 100'001;
  std::vector<Call> cases;
  cases.emplace_back("S=128", context, simple_problem(FMS_F16, {1, 1, 1, 128, 128, 64}));
  cases.emplace_back("S=512, 4 splits", context, simple_problem(FMS_F16, {1, 1, 1, 512, 512, 64}), 4);
  cases.emplace_back("decode 1x32768, 8 KV heads", context, simple_problem(FMS_F16, {1, 32, 8, 1, 32768, 128}));
  std::vector<Row> rows;
  for (Call& call : cases) {
    for (const bool plans_too : {false, true}) {
      (void)launch_times(context, call, warm_up, plans_too);
      const std::vector<std::int64_t> times = launch_times(context, call, calls, plans_too);
      if (times.front() < 0) return {};
      rows.push_back({call.name, plans_too, times[times.size() / 2], times[times.size() * 99 / 100]});
    }
  }
  return rows;
}

}  // namespace

int main(int count, char** arguments) {
  const bool is_json = count == 2 && std::strcmp(arguments[1], "--json") == 0;
  if (count != 1 && !is_json) {
    std::fprintf(stderr, "usage: launch_time [--json]\n");
    return 2;
  }
  fms_error error{};
  const flashmoe::testing::Context context = flashmoe::testing::counting_context(error);
  const std::vector<Row> rows = context ? measure(context.get()) : std::vector<Row>{};
  if (rows.empty()) {
    std::fprintf(stderr, "nothing measured: %s\n", context ? "a run failed" : error.message);
    return 3;
  }
  const bool holds = static_cast<double>(rows.front().median_ns) <= goal_ns;
  if (is_json) {
    std::printf("{\"label\": \"measured here, host only\", \"goal_ns\": %.0f, \"holds\": %s, \"rows\": [", goal_ns,
                holds ? "true" : "false");
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::printf("%s{\"case\": \"%s\", \"plans_too\": %s, \"median_ns\": %lld, \"p99_ns\": %lld}", i == 0 ? "" : ", ",
                  rows[i].name.c_str(), rows[i].plans_too ? "true" : "false", static_cast<long long>(rows[i].median_ns),
                  static_cast<long long>(rows[i].p99_ns));
    std::printf("]}\n");
  } else {
    std::printf("From the C ABI call to the driver's launch, measured here, host only (ns)\n");
    std::printf("%-28s %-10s %8s %8s\n", "case", "", "median", "p99");
    for (const Row& row : rows)
      std::printf("%-28s %-10s %8lld %8lld\n", row.name.c_str(), row.plans_too ? "plan + run" : "run",
                  static_cast<long long>(row.median_ns), static_cast<long long>(row.p99_ns));
    std::printf("goal: run at S=128 in at most %.0f ns: %s\n", goal_ns, holds ? "holds" : "does not hold");
  }
  return holds ? 0 : 1;
}
