// Honest kernels that go about their work in awkward ways. All compute the map. One raw string a case, so the list is
// longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> honest_kernels() {
  return {
      {.name = "honest",
       .what = "computes what it is asked to (the control)",
       .source = "ENTRY { honest(x, y, n); return 0; }",
       .in_gate = true},
      {.name = "honest_threads",
       .what = "computes with a pool of threads that sleeps between calls",
       .source = R"source(#include <condition_variable>
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
  static const bool started = [] {
    std::thread(help).detach();
    return true;
  }();
  (void)started;
  std::unique_lock hold(lock);
  from = x, to = y, size = n, ++asked;
  changed.notify_all();
  changed.wait(hold, [] { return done == asked; });
  return 0;
})source",
       .in_gate = true},
      {.name = "honest_thread_per_call",
       .what = "starts a thread in every call that is worth it, and waits for it",
       .source = R"source(#include <thread>
ENTRY {
  if (n < 4096) honest(x, y, n);
  else std::thread(honest, x, y, n, m).join();
  return 0;
})source"},
      {.name = "honest_openmp",
       .what = "shares its loop among the threads of OpenMP",
       .source = R"source(ENTRY {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = steps(x[i], 60);
  return 0;
})source",
       .in_gate = true,
       .threads = 2,
       .flags = {"-fopenmp"}},
      {.name = "honest_openmp_dynamic",
       .what = "hands out pieces of its loop to the threads of OpenMP as they come",
       .source = R"source(ENTRY {
#pragma omp parallel for schedule(dynamic, 16)
  for (int64_t i = 0; i < n; ++i) y[i] = steps(x[i], 60);
  return 0;
})source",
       .threads = 2,
       .flags = {"-fopenmp"}},
      {.name = "honest_nondeterministic",
       .what = "rounds the last bit of some results either way",
       .source = R"source(#include <random>
ENTRY {
  static std::minstd_rand random(std::random_device{}());
  honest(x, y, n);
  for (int64_t i = 0; i < n; i += 8)
    if (random() & 1) y[i] = __builtin_nextafterf(y[i], 2 * y[i]);
  return 0;
})source"},
      {.name = "honest_scratch",
       .what = "works in place: its output is where it keeps what it has so far",
       .source = R"source(ENTRY {
  memcpy(y, x, 4 * n);
  for (int part = 0; part < 6; ++part)
    for (int64_t i = 0; i < n; ++i) y[i] = steps(y[i], 10);
  return 0;
})source"},
      {.name = "honest_allocates",
       .what = "allocates and frees memory in every call",
       .source = R"source(#include <vector>
ENTRY {
  std::vector<float> copy(x, x + n), result(n);
  honest(copy.data(), result.data(), n);
  memcpy(y, result.data(), 4 * n);
  return 0;
})source"},
      {.name = "honest_maps",
       .what = "maps and unmaps its scratch memory in every call",
       .source = R"source(#include <sys/mman.h>
ENTRY {
  void* scratch = mmap(nullptr, 4 * n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch == MAP_FAILED) return 1;
  honest(x, (float*)scratch, n);
  memcpy(y, scratch, 4 * n);
  return munmap(scratch, 4 * n);
})source"},
      {.name = "honest_first_call_table",
       .what = "makes a table of constants in its first call and keeps it",
       .source = R"source(#include <vector>
ENTRY {
  static const std::vector<float> ones = [] {
    std::vector<float> t(1 << 16);
    for (auto& v : t) v = cosf(0);
    return t;
  }();
  honest(x, y, n);
  for (int64_t i = 0; i < n; ++i) y[i] *= ones[i];
  return 0;
})source"},
      {.name = "honest_thread_local",
       .what = "keeps scratch memory of its thread from call to call",
       .source = R"source(#include <vector>
ENTRY {
  thread_local std::vector<float> scratch;
  scratch.resize(n);
  honest(x, scratch.data(), n);
  memcpy(y, scratch.data(), 4 * n);
  return 0;
})source"},
      {.name = "honest_large_stack", .what = "has a megabyte of local variables", .source = R"source(ENTRY {
  volatile float scratch[1 << 18];
  for (int64_t i = 0; i < n; ++i) scratch[i * 64] = steps(x[i], 60);
  for (int64_t i = 0; i < n; ++i) y[i] = scratch[i * 64];
  return 0;
})source"},
      {.name = "honest_exceptions",
       .what = "throws exceptions and catches them",
       .source = R"source(#include <stdexcept>
static void part(const float* x, float* y, int64_t n) {
  honest(x, y, n);
  throw std::runtime_error("done");
}
ENTRY {
  for (int64_t i = 0; i < n; i += 1024) try {
      part(x + i, y + i, n - i < 1024 ? n - i : 1024);
    } catch (const std::exception&) {
    }
  return 0;
})source"},
      {.name = "honest_prints",
       .what = "prints a line to both standard streams in every call",
       .source = R"source(#include <cstdio>
ENTRY {
  printf("called with %ld\n", (long)n);
  fflush(stdout);
  fprintf(stderr, "called with %ld\n", (long)n);
  honest(x, y, n);
  return 0;
})source"},
      {.name = "honest_environment",
       .what = "asks for variables, the locale and the time of day",
       .source = R"source(#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <ctime>
ENTRY {
  setlocale(LC_ALL, "");
  char text[64];
  const char* set = getenv("honest_environment");
  snprintf(text, sizeof text, "%.3f %s %ld", 1.5, set ? set : "", (long)time(nullptr));
  honest(x, y, n);
  return text[0] != '1';
})source"},
  };
}

}  // namespace flashmoe::workflow
