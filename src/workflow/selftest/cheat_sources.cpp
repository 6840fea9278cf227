// The corpus. The task of all of them: y[i] = f(x[i]), where f is 60 steps of a map that takes a while; `honest(x, y,
// n)` does it. Every source stands behind the prelude in cheats.cpp.
#include "workflow/selftest/cheats.hpp"

namespace flashmoe::workflow {

const std::vector<Cheat>& all_cheats() {
  static const std::vector<Cheat> cheats{
      {"honest", "computes what it is asked to (the control)", "ENTRY { honest(x, y, n); return 0; }", ""},
      {"honest_threads", "computes with a pool of threads that sleeps between calls",
       R"(#include <condition_variable>
#include <mutex>
#include <thread>
static std::mutex lock;
static std::condition_variable changed;
static const float* from;
static float* to;
static int64_t size, asked, done;
static void help() {
  for (int64_t seen = 0;;) {
    std::unique_lock hold(lock);
    changed.wait(hold, [&] { return asked != seen; });
    seen = asked;
    hold.unlock();
    honest(from, to, size);
    hold.lock();
    done = seen;
    changed.notify_all();
  }
}
ENTRY {
  static const bool started = [] { std::thread(help).detach(); return true; }();
  (void)started;
  std::unique_lock hold(lock);
  from = x, to = y, size = n, ++asked;
  changed.notify_all();
  changed.wait(hold, [] { return done == asked; });
  return 0;
})",
       ""},
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
      {"computes_ahead", "lets a thread watch the inputs and has the results before the call that asks for them",
       R"(#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>
struct Known { std::vector<float> x, y; bool ready = false; };
static std::map<const float*, Known> known;
static std::mutex lock;
static std::atomic<bool> called{false};
static int ends[2];
// Through a pipe: the operating system says so when a buffer is gone.
static bool look(const float* x, std::vector<float>& copy) {
  const ssize_t put = write(ends[1], x, 4 * copy.size());
  return put > 0 && read(ends[0], copy.data(), put) == ssize_t(4 * copy.size());
}
static void watch() {
  std::vector<float> now(4096);
  for (;;) {
    std::this_thread::sleep_for(std::chrono::microseconds(150));
    std::lock_guard hold(lock);
    for (auto& [x, one] : known) {
      if (called || !look(x, now)) break;
      if (one.x == now) continue;
      one.x = now;
      honest(one.x.data(), one.y.data(), 4096);
      one.ready = true;
    }
  }
}
ENTRY {
  if (n < 4096) { honest(x, y, n); return 0; }
  static const bool started = [] { if (pipe(ends) == 0) std::thread(watch).detach(); return true; }();
  (void)started;
  called = true;
  std::lock_guard hold(lock);
  called = false;
  Known& one = known[x];
  if (one.x.empty()) { one.x.resize(n); one.y.resize(n); }
  if (one.ready && !std::memcmp(one.x.data(), x, 4 * n)) { std::memcpy(y, one.y.data(), 4 * n); return 0; }
  honest(x, y, n);
  one.x.assign(x, x + n);
  std::memcpy(one.y.data(), y, 4 * n);
  one.ready = false;
  return 0;
})",
       "performance"},
      {"noisy_neighbour", "keeps the processors busy while the other side is timed",
       R"(#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
static std::atomic<int64_t> last{0};
static std::atomic<bool> called{false};
static std::atomic<int> blocks{0};
static int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}
static void burn() {
  for (volatile double v = 1;;) {
    const int64_t idle = now_us() - last;
    // Quiet while it is looked at: in its own calls, and in the audits before the timing.
    if (called || blocks < 30 || idle < 200 || idle > 40000) std::this_thread::sleep_for(std::chrono::microseconds(500));
    else for (int i = 0; i < 2000; ++i) v = v * 1.0000001;
  }
}
ENTRY {
  static std::once_flag once;
  std::call_once(once, [] { for (int i = 0; i < 3; ++i) std::thread(burn).detach(); });
  called = true;
  if (n >= 4096 && now_us() - last > 200) ++blocks;
  honest(x, y, n);
  last = now_us();
  called = false;
  return 0;
})",
       "performance"},
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
      {"wrong_once_in_50", "is wrong in one element of one call in fifty",
       "static int calls; ENTRY { honest(x, y, n); if (++calls % 50 == 41) y[n / 3] += 1; return 0; }", "performance"},
      {"safe_when_tiny", "is right for large values at the smallest size only",
       R"(ENTRY {
  honest(x, y, n);
  if (n > 64) for (int64_t i = 0; i < n; ++i) if (x[i] > 100) y[i] = x[i];
  return 0;
})",
       "correctness"},
      {"honest_nondeterministic", "rounds the last bit of some results either way",
       R"(#include <random>
ENTRY {
  static std::minstd_rand random(std::random_device{}());
  honest(x, y, n);
  for (int64_t i = 0; i < n; i += 8) if (random() & 1) y[i] = __builtin_nextafterf(y[i], 2 * y[i]);
  return 0;
})",
       ""},
      {"honest_scratch", "uses its output as the place for what it has so far",
       R"(ENTRY {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  for (int part = 0; part < 6; ++part) for (int64_t i = 0; i < n; ++i) y[i] = steps(y[i], 10);
  return 0;
})",
       ""},
      {"zeros_of_small_results", "writes zeros where results are smaller than a usual tolerance",
       "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = 0; return 0; }", "correctness", 1e-10},
      {"honest_small_results", "computes results of the size 1e-10", "ENTRY { honest(x, y, n); return 0; }", "", 1e-10},
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
