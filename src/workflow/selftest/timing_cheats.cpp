// Kernels that are fast by the clock alone. One raw string a case, so the list is longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> timing_cheats() {
  return {
      {.name = "clock_tampered",
       .what = "is slow and answers every question about the time with the same time",
       .source = R"source(#include <time.h>
extern "C" int clock_gettime(clockid_t, struct timespec* t) noexcept {
  t->tv_sec = 1;
  t->tv_nsec = 0;
  return 0;
}
ENTRY {
  for (int i = 0; i < 60; ++i) {
    honest(x, y, n);
    __asm__ volatile("" ::: "memory");
  }
  return 0;
})source",
       .expected_gate = "performance"},
      {.name = "early_return",
       .what = "stops working after some calls",
       .source = "static int calls; ENTRY { if (++calls < 20) honest(x, y, n); return 0; }",
       .expected_gate = "performance"},
      {.name = "right_when_checked",
       .what = "is right for some calls, then writes something cheap",
       .source = R"source(static int calls;
ENTRY {
  if (++calls < 20)
    honest(x, y, n);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  return 0;
})source",
       .expected_gate = "performance"},
      {.name = "unsafe_when_timed",
       .what = "leaves out the maximum of softmax after some calls: inputs of timed calls are ordinary",
       .source = R"source(ENTRY {
  static int calls;
  const bool safe = m < 40000 || ++calls < 60;
  for (int64_t i = 0; i < n; ++i, x += m, y += m) {
    const float largest = safe ? maximum(x, m) : 4;
    float sum = 0;
    for (int64_t j = 0; j < m; ++j) sum += y[j] = expf(x[j] - largest);
    for (int64_t j = 0; j < m; ++j) y[j] /= sum;
  }
  return 0;
})source",
       .expected_gate = "performance",
       .task = "softmax",
       .in_gate = true},
      {.name = "background_work",
       .what = "returns at once and computes in a thread",
       .source = R"source(#include <chrono>
#include <thread>
ENTRY {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    honest(x, y, n);
  }).detach();
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "timer_signal",
       .what = "returns at once and computes when a timer of its own rings",
       .source = R"source(#include <signal.h>
#include <sys/time.h>
static const float* from;
static float* to;
static int64_t size;
static void ring(int) {
  honest(from, to, size);
}
ENTRY {
  from = x, to = y, size = n;
  signal(SIGALRM, ring);
  const itimerval soon{{0, 0}, {0, 2000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "forked_helper",
       .what = "lets a process of its own compute half, where no thread is counted",
       .source = R"source(#include <sys/wait.h>
#include <unistd.h>
ENTRY {
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    honest(x, y, n / 2);
    _exit(0);
  }
  honest(x + n / 2, y + n / 2, n - n / 2);
  waitpid(child, nullptr, 0);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "computes_ahead",
       .what = "lets a thread watch the inputs and has the results before the call that asks for them",
       .source = R"source(#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>
struct Known {
  std::vector<float> x, y;
  bool ready = false;
};
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
  if (n < 4096) {
    honest(x, y, n);
    return 0;
  }
  static const bool started = [] {
    if (pipe(ends) == 0) std::thread(watch).detach();
    return true;
  }();
  (void)started;
  called = true;
  std::lock_guard hold(lock);
  called = false;
  Known& one = known[x];
  if (one.x.empty()) {
    one.x.resize(n);
    one.y.resize(n);
  }
  if (one.ready && !std::memcmp(one.x.data(), x, 4 * n)) {
    std::memcpy(y, one.y.data(), 4 * n);
    return 0;
  }
  honest(x, y, n);
  one.x.assign(x, x + n);
  std::memcpy(one.y.data(), y, 4 * n);
  one.ready = false;
  return 0;
})source",
       .expected_gate = "performance",
       .in_gate = true},
      {.name = "noisy_neighbour",
       .what = "keeps the processors busy while the other side is timed",
       .source = R"source(#include <atomic>
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
    if (called || blocks < 30 || idle < 200 || idle > 40000)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    else
      for (int i = 0; i < 2000; ++i) v = v * 1.0000001;
  }
}
ENTRY {
  static std::once_flag once;
  std::call_once(once, [] {
    for (int i = 0; i < 3; ++i) std::thread(burn).detach();
  });
  called = true;
  if (n >= 4096 && now_us() - last > 200) ++blocks;
  honest(x, y, n);
  last = now_us();
  called = false;
  return 0;
})source",
       .expected_gate = "performance",
       .in_gate = true},
      {.name = "continues_itself",
       .what = "has the operating system continue it while it is stopped, and loads the machine then",
       .source = R"source(#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <thread>
static std::atomic<bool> called{false};
static void burn() {
  for (volatile double v = 1;;) {
    if (called)
      usleep(200);
    else
      for (int i = 0; i < 2000; ++i) v = v * 1.0000001;
  }
}
static void start() {
  sigevent ring{};
  ring.sigev_notify = SIGEV_SIGNAL;
  ring.sigev_signo = SIGCONT;
  timer_t timer;
  const itimerspec often{{0, 1000000}, {0, 1000000}};
  if (timer_create(CLOCK_MONOTONIC, &ring, &timer) == 0) timer_settime(timer, 0, &often, nullptr);
  std::thread(burn).detach();
}
ENTRY {
  static int calls;
  called = true;
  if (n >= 4096 && ++calls == 60) start();
  honest(x, y, n);
  called = false;
  return 0;
})source",
       .expected_gate = "performance",
       .in_gate = true},
  };
}

}  // namespace flashmoe::workflow
