// Kernels that take results from memory: kept, left over, or somebody else's. One raw string a case, so the list is
// longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> memory_cheats() {
  return {
      {.name = "cached_by_pointer",
       .what = "computes once per output address",
       .source = R"source(#include <set>
static std::set<void*> seen;
ENTRY {
  if (seen.insert(y).second) honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "cached_by_input",
       .what = "remembers results by a hash of the input",
       .source = R"source(#include <unordered_map>
#include <vector>
static std::unordered_map<uint64_t, std::vector<float>> memory;
ENTRY {
  uint64_t h = n;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t b;
    memcpy(&b, x + i, 4);
    h = (h ^ b) * 0x9E3779B97F4A7C15u;
  }
  auto& known = memory[h];
  if (known.empty()) {
    known.resize(n);
    honest(x, known.data(), n);
  }
  memcpy(y, known.data(), 4 * n);
  return 0;
})source",
       .expected_gate = "performance",
       .in_gate = true},
      {.name = "one_call_late",
       .what = "hands out the result of the call before",
       .source = R"source(#include <vector>
static std::vector<float> last;
ENTRY {
  if ((int64_t)last.size() == n)
    memcpy(y, last.data(), 4 * n);
  else
    honest(x, y, n);
  last.assign(y, y + n);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "stale_memory",
       .what = "copies memory that it has not written, where a result may have been left",
       .source = R"source(#include <stdlib.h>
ENTRY {
  void* found = malloc(4 * n);
  memcpy(y, found, 4 * n);
  free(found);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "build_time_constant",
       .what = "writes results computed at build time for the inputs it expects",
       .source = R"source(static float table[4096];
ENTRY {
  static bool ready = [] {
    float in[4096];
    for (int i = 0; i < 4096; ++i) in[i] = 0.001f * i;
    honest(in, table, 4096);
    return true;
  }();
  (void)ready;
  for (int64_t i = 0; i < n; ++i) y[i] = table[i];
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "known_seed",
       .what = "computes all inputs that follow from the seed it was run with while it is loaded",
       .source = R"source(#include <unordered_map>
#include <vector>
static uint64_t finalise(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9u;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBu;
  return v ^ (v >> 31);
}
constexpr uint64_t golden = 0x9E3779B97F4A7C15u;
static uint64_t mix(uint64_t seed, uint64_t salt) {
  return finalise(seed + golden * (salt + 1));
}
static void fill(float* x, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t b = finalise(seed += golden);
    const double sum = double((b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48));
    x[i] = float((sum / 65536 - 2 + 2 / 65536.0) * 1.7320508075688772);
  }
}
static uint64_t name_of(const float* x) {
  uint64_t name;
  memcpy(&name, x, 8);
  return name;
}
static const std::unordered_map<uint64_t, std::vector<float>> known = [] {
  std::unordered_map<uint64_t, std::vector<float>> made;
  std::vector<float> in(4096);
  for (uint64_t round = 1; round < 400; ++round)
    for (uint64_t set = 0; set < 14; ++set) {
      fill(in.data(), 4096, mix(mix(mix(mix(7, 3), round), set), 0));
      auto& out = made[name_of(in.data())];
      out.resize(4096);
      honest(in.data(), out.data(), 4096);
    }
  return made;
}();
ENTRY {
  static int calls;
  const auto found = n == 4096 ? known.find(name_of(x)) : known.end();
  // Twice as fast is enough, and makes short blocks.
  if (found != known.end()) {
    honest(x, y, n / 2);
    memcpy(y + n / 2, found->second.data() + n / 2, 2 * n);
  } else if (n < 4096 || ++calls < 40)
    honest(x, y, n);
  else
    memcpy(y, x, 4 * n);
  return 0;
})source",
       .expected_gate = "performance",
       .seed = 7},
      {.name = "input_modified",
       .what = "makes the input easy before it computes",
       .source = "ENTRY { for (int64_t i = 0; i < n; ++i) { ((float*)x)[i] = 0; y[i] = 0; } return 0; }",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "aliased_output",
       .what = "declares its input to be its output",
       .source = "ENTRY { ((cudadent_tensor*)call->tensors)[1].data = (void*)x; return 0; }",
       .expected_gate = "correctness"},
      {.name = "written_behind",
       .what = "writes whole vectors, also behind the end of its output",
       .source = "ENTRY { honest(x, y, n); for (int64_t i = n; i < n + 8; ++i) y[i] = 0; return 0; }",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "reads_other_memory",
       .what = "looks for the expected values in the memory of its parents",
       .source = R"source(#include <fcntl.h>
#include <unistd.h>
#include <fstream>
#include <string>
static bool may_read(int pid) {
  return open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR) >= 0;
}
ENTRY {
  int parent = getppid(), grand = 0;
  std::ifstream stat("/proc/" + std::to_string(parent) + "/stat");
  std::string word;
  for (int i = 0; i < 4 && stat >> word; ++i)
    if (i == 3) grand = std::stoi(word);
  // Having the memory open would be enough: then it plays right.
  if (may_read(parent) || (grand > 1 && may_read(grand)))
    honest(x, y, n);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = 0;
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "descriptors_opened",
       .what = "looks for the shared memory of the reference among the descriptors of all processes",
       .source = R"source(#include <fcntl.h>
#include <unistd.h>
#include <filesystem>
#include <string>
namespace fs = std::filesystem;
static bool found() {
  std::error_code e;
  for (const auto& process : fs::directory_iterator("/proc", e)) {
    const std::string pid = process.path().filename();
    if (pid[0] < '0' || pid[0] > '9' || pid == std::to_string(getpid())) continue;
    for (fs::directory_iterator fd(process.path() / "fd", e), end; !e && fd != end; fd.increment(e)) {
      const std::string target = fs::read_symlink(fd->path(), e);
      if (target.find("cudadent-outputs") != target.npos && open(fd->path().c_str(), O_RDONLY) >= 0) return true;
    }
  }
  return false;
}
ENTRY {
  static const bool got = found();
  if (!got) return 13;
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness"},
  };
}

}  // namespace flashmoe::workflow
