// Prints the machine's limits as JSON: machine_limits [threads ...]   (default: 1, and all processors)
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "machine_limits.hpp"

namespace {

struct Limit {
  const char* name;
  const char* unit;
  std::size_t working_set_bytes;
};

constexpr Limit kLimits[] = {
    {"amx_bf16", "flop", 0},
    {"fma_fp32", "flop", 0},
    {"exp2_degree3", "value", 0},
    {"exp2_degree4", "value", 0},
    {"exp2_degree6", "value", 0},
    {"read", "byte", std::size_t{1} << 20},
    {"read", "byte", std::size_t{64} << 20},
    {"read", "byte", std::size_t{512} << 20},
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> thread_counts;
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    const long count = std::strtol(argv[i], &end, 10);
    if (*end != '\0' || count < 1 || count > 1024) {
      std::fprintf(stderr, "machine_limits: %s is not a number of threads from 1 to 1024\n", argv[i]);
      return 2;
    }
    thread_counts.push_back(static_cast<int>(count));
  }
  if (thread_counts.empty()) {
    thread_counts = {1};
    const int processors = static_cast<int>(std::thread::hardware_concurrency());
    if (processors > 1) thread_counts.push_back(processors);
  }
  const char* separator = "";
  std::printf("{\"label\": \"measured\", \"limits\": [");
  for (const int threads : thread_counts) {
    for (const Limit& limit : kLimits) {
      double per_second = 0;
      const int status = flashmoe_measure_limit(limit.name, threads, 0.05, limit.working_set_bytes, &per_second);
      const std::string value = status == FLASHMOE_LIMIT_OK ? std::to_string(per_second) : "null";
      std::printf(
          "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"threads\": %d, \"working_set_bytes\": %zu, \"per_second\": %s}",
          separator, limit.name, limit.unit, threads, limit.working_set_bytes, value.c_str());
      separator = ",";
    }
  }
  std::printf("\n]}\n");
}
