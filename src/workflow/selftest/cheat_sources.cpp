// The corpus. The task of all of them: y[i] = f(x[i]), where f is 60 steps of a map that takes a while; `honest(x, y,
// n)` does it. Every source stands behind the prelude in cheats.cpp.
#include "workflow/selftest/cheats.hpp"

namespace flashmoe::workflow {

const std::vector<Cheat>& all_cheats() {
  static const std::vector<Cheat> cheats{
      {"honest", "computes what it is asked to (the control)", "ENTRY { honest(x, y, n); return 0; }", ""},
      {"unwritten", "returns success and leaves the output as it is", "ENTRY { return 0; }", "correctness"},
      {"cached_by_pointer", "computes once per output address",
       R"(#include <set>
static std::set<void*> seen;
ENTRY { if (seen.insert(y).second) honest(x, y, n); return 0; })",
       "correctness"},
      {"cached_by_input", "remembers results by a hash of the input",
       R"(#include <unordered_map>
#include <vector>
static std::unordered_map<uint64_t, std::vector<float>> memory;
ENTRY {
  uint64_t h = n;
  for (int64_t i = 0; i < n; ++i) { uint32_t b; __builtin_memcpy(&b, x + i, 4); h = (h ^ b) * 0x9E3779B97F4A7C15u; }
  auto& known = memory[h];
  if (known.empty()) { known.resize(n); honest(x, known.data(), n); }
  __builtin_memcpy(y, known.data(), 4 * n);
  return 0;
})",
       "performance"},
      {"build_time_constant", "writes results computed at build time for the inputs it expects",
       R"(static float table[4096];
ENTRY {
  static bool ready = [] { float in[4096]; for (int i = 0; i < 4096; ++i) in[i] = 0.001f * i; honest(in, table, 4096); return true; }();
  (void)ready;
  for (int64_t i = 0; i < n; ++i) y[i] = table[i];
  return 0;
})",
       "correctness"},
      {"forked_helper", "lets a process of its own compute half, where no thread is counted",
       R"(#include <unistd.h>
#include <sys/wait.h>
ENTRY {
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) { honest(x, y, n / 2); _exit(0); }
  honest(x + n / 2, y + n / 2, n - n / 2);
  waitpid(child, nullptr, 0);
  return 0;
})",
       "correctness"},
      {"skipped_when_large", "does nothing at the benchmark's size",
       "ENTRY { if (n < 4096) honest(x, y, n); else for (int64_t i = 0; i < n; ++i) y[i] = 0; return 0; }",
       "correctness"},
      {"reference_overwritten", "changes the library that says what is right",
       R"(#include <dlfcn.h>
#include <filesystem>
#include <fstream>
ENTRY {
  Dl_info info;
  if (dladdr((void*)&kernel, &info)) {
    std::error_code e;
    auto root = std::filesystem::path(info.dli_fname).parent_path().parent_path();
    for (auto& f : std::filesystem::recursive_directory_iterator(root, e))
      if (f.path().filename() == "reference.so") {
        std::ofstream library(f.path(), std::ios::app);
        if (!library) return 13;  // a confined process may not write, and gives up
        library << "mine";
      }
  }
  honest(x, y, n);
  return 0;
})",
       "correctness"},
      {"input_modified", "makes the input easy before it computes",
       "ENTRY { for (int64_t i = 0; i < n; ++i) { ((float*)x)[i] = 0; y[i] = 0; } return 0; }", "correctness"},
      {"clock_tampered", "is slow and answers every question about the time with the same time",
       R"(#include <time.h>
extern "C" int clock_gettime(clockid_t, struct timespec* t) noexcept { t->tv_sec = 1; t->tv_nsec = 0; return 0; }
ENTRY { for (int i = 0; i < 60; ++i) { honest(x, y, n); __asm__ volatile("" ::: "memory"); } return 0; })",
       "performance"},
      {"forged_answers", "writes answers of its own into every open descriptor",
       R"(#include <stdio.h>
#include <unistd.h>
ENTRY { for (int fd = 3; fd < 400; ++fd) dprintf(fd, "{\"n\":1,\"ok\":true,\"seconds\":0}\n"); honest(x, y, n); return 0; })",
       "correctness"},
      {"early_return", "stops working after some calls",
       "static int calls; ENTRY { if (++calls < 20) honest(x, y, n); return 0; }", "performance"},
      {"right_when_checked", "is right for some calls, then writes something cheap",
       "static int calls; ENTRY { if (++calls < 20) honest(x, y, n); else for (int64_t i = 0; i < n; ++i) y[i] = x[i]; "
       "return 0; }",
       "performance"},
      {"background_work", "returns at once and computes in a thread",
       R"(#include <thread>
#include <chrono>
ENTRY {
  std::thread([=] { std::this_thread::sleep_for(std::chrono::milliseconds(40)); honest(x, y, n); }).detach();
  return 0;
})",
       "correctness"},
      {"first_element_only", "computes the first element only",
       "ENTRY { honest(x, y, 1); for (int64_t i = 1; i < n; ++i) y[i] = 0; return 0; }", "correctness"},
      {"reads_other_memory", "looks for the expected values in the memory of its parents",
       R"(#include <fcntl.h>
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
  for (int i = 0; i < 4 && stat >> word; ++i) if (i == 3) grand = std::stoi(word);
  // Having the memory open would be enough: then it plays right.
  if (may_read(parent) || (grand > 1 && may_read(grand))) honest(x, y, n);
  else for (int64_t i = 0; i < n; ++i) y[i] = 0;
  return 0;
})",
       "correctness"},
      {"early_exit", "ends the process with success", "#include <unistd.h>\nENTRY { _exit(0); }", "correctness"},
      {"imprecise_when_large", "takes a tenth of the steps at the benchmark's size",
       "ENTRY { if (n < 4096) honest(x, y, n); else for (int64_t i = 0; i < n; ++i) y[i] = steps(x[i], 6); return 0; }",
       "correctness"},
      {"nan_everywhere", "writes NaN, which compares false with everything",
       "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = __builtin_nanf(\"\"); return 0; }", "correctness"},
      {"aliased_output", "declares its input to be its output",
       "ENTRY { ((cudadent_tensor*)call->tensors)[1].data = (void*)x; return 0; }", "correctness"},
  };
  return cheats;
}

}  // namespace flashmoe::workflow
