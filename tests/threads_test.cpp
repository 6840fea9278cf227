// Threads that cannot be made, and processes that are forked: fewer threads and the same bits, instead of the end of
// the process or a wait without end. The refusals come from a pthread_create of this program's own.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "support/simple_case.hpp"

#if !defined(FMS_SANITIZED)  // the sanitizers have a pthread_create of their own
namespace {

constexpr int kNoLimit = 1 << 20;
std::atomic<int> live_threads{0}, most_live_threads{kNoLimit}, refusals{0};

struct Body {
  void* (*run)(void*);
  void* argument;
};

void* run_and_leave(void* given) {
  const struct Leaving {  // by pthread_exit, too
    ~Leaving() { --live_threads; }
  } leaving;
  const Body body = *static_cast<Body*>(given);
  delete static_cast<Body*>(given);
  return body.run(body.argument);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (++live_threads > most_live_threads) {
    --live_threads;
    ++refusals;
    return EAGAIN;
  }
  return real(thread, attributes, run_and_leave, new Body{body, argument});
}
#endif

namespace flashmoe::testing {
namespace {

constexpr int32_t kTeam = 4;

// Runs a problem for four threads and a merge for as many as there are, again and again.
class Work {
 public:
  explicit Work(fms_cpu_isa isa = FMS_ISA_AUTO) : context_(make_context(isa)) {}

  // o, lse and the merged state; `threads`: how many ran.
  std::vector<uint8_t> run(int* threads) {
    one_.reset_outputs();
    const fms_plan_options options = plan_options(kTeam, 2, 0);
    const RunResult result = plan_and_run(context_.get(), one_, &options);
    EXPECT_EQ(result.status, FMS_OK) << to_string(result.error);
    *threads = result.info.threads;
    std::vector<uint8_t> bytes = one_.output_bytes();
    constexpr int64_t kRows = 4, kDim = 20'000;  // enough for a parallel region
    fms_merge_problem merging;
    fms_merge_problem_init(&merging, FMS_F32, 1, 1, kRows, kDim);
    const std::vector<float> a(kRows * kDim, 1.5F), b(kRows * kDim, -0.25F);
    std::vector<float> o(kRows * kDim);
    const float lse_a[kRows] = {0, 1, 2, 3}, lse_b[kRows] = {1, 1, 0, 0};
    float lse[kRows];
    EXPECT_EQ(
        fms_merge_states(context_.get(), &merging, a.data(), lse_a, b.data(), lse_b, o.data(), lse, nullptr, nullptr),
        FMS_OK);
    const auto* merged = reinterpret_cast<const uint8_t*>(o.data());
    bytes.insert(bytes.end(), merged, merged + o.size() * sizeof(float));
    return bytes;
  }

 private:
  Context context_;
  AttentionCase one_ = normal_case(simple_problem(FMS_F16, {2, 4, 4, 100, 200, 64}));
};

#if !defined(FMS_SANITIZED)
// In a thread of its own, whose pool is empty. The pool's threads end some time after it, and until then they count.
void in_a_new_thread(const std::function<void()>& body) {
  const int before = live_threads;
  std::thread(body).join();
  while (live_threads > before) std::this_thread::yield();
}

TEST(Threads, ThatCannotBeMadeAreDoneWithout) {
  std::vector<uint8_t> expected;
  int full_team = 0;
  in_a_new_thread([&] { expected = Work().run(&full_team); });
  EXPECT_EQ(full_team, kTeam);
  for (int allowed = 0; allowed < kTeam; ++allowed) {
    in_a_new_thread([&] {
      refusals = 0;
      most_live_threads = live_threads + allowed;
      int threads = 0;
      Work work;
      const std::vector<uint8_t> got = work.run(&threads);
      const int refused = refusals;
      most_live_threads = kNoLimit;
      EXPECT_TRUE(got == expected) << allowed;
      EXPECT_EQ(threads, allowed < kTeam - 1 ? 1 : kTeam) << allowed;
      EXPECT_TRUE(refused > 0 || allowed == kTeam - 1) << allowed;
      // With room again, the next run is whole again.
      EXPECT_TRUE(work.run(&threads) == expected) << allowed;
      EXPECT_EQ(threads, kTeam);
    });
  }
}
#endif

// How a child ends that does `body`; a child that waits without end is ended by the alarm.
int status_of_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Threads, OfTheParentAreNotWaitedForInAChild) {
  for (const fms_cpu_isa isa : available_isas()) {
    Work work(isa);
    int threads = 0;
    const std::vector<uint8_t> expected = work.run(&threads);
    EXPECT_EQ(threads, kTeam);
    const int status = status_of_child([&] {
      int in_child = 0;
      const bool is_same = work.run(&in_child) == expected && in_child == 1;
      // A grandchild is no better off.
      return is_same && status_of_child([&] { return work.run(&in_child) == expected && in_child == 1; }) == 0;
    });
    EXPECT_EQ(status, 0) << fms_cpu_isa_name(isa) << (WIFSIGNALED(status) ? ": did not end" : ": wrong");
    EXPECT_TRUE(work.run(&threads) == expected) << "the parent goes on as before";
    EXPECT_EQ(threads, kTeam);
  }
}

TEST(Threads, APlanMadeInAChildIsForOne) {
  int threads = 0;
  Work().run(&threads);
  const Context context = make_context(FMS_ISA_AUTO);
  const fms_attention_problem problem = simple_problem(FMS_F16, {8, 8, 8, 512, 512, 64});
  EXPECT_EQ(status_of_child([&] {
              fms_attention_plan plan;
              return fms_attention_plan_make(context.get(), &problem, nullptr, &plan, nullptr) == FMS_OK &&
                     plan.threads == 1;
            }),
            0);
}

}  // namespace
}  // namespace flashmoe::testing
