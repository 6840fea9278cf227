// Whatever floating-point environment a caller or a thread of its pool has set, results are the same bits, nothing
// traps, and the environment is left as it was.
#include <gtest/gtest.h>
#include <omp.h>

#include <cfenv>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

struct Environment {
  std::string name;
  std::function<void()> set;
};

#if defined(__x86_64__)
uint32_t mxcsr() {
  uint32_t value;
  asm volatile("stmxcsr %0" : "=m"(value));
  return value;
}
uint32_t settings() {
  constexpr uint32_t flags = 0x3f;  // of what has happened, not of what is wanted
  return mxcsr() & ~flags;
}
Environment with_mxcsr_bits(const std::string& name, uint32_t bits) {
  return {name, [bits] {
            const uint32_t value = mxcsr() | bits;
            asm volatile("ldmxcsr %0" ::"m"(value));
          }};
}
#else
int settings() {
  return std::fegetround();
}
#endif

std::vector<Environment> environments() {
  std::vector<Environment> all;
  for (const auto& [name, mode] : {std::pair{"upward", FE_UPWARD}, {"downward", FE_DOWNWARD}, {"zero", FE_TOWARDZERO}})
    all.push_back({std::string("rounding ") + name, [mode = mode] { std::fesetround(mode); }});
#if defined(__x86_64__)
  all.push_back(with_mxcsr_bits("flush to zero", 0x8000));
  all.push_back(with_mxcsr_bits("denormals are zero", 0x0040));
  all.push_back({"every exception traps", [] { feenableexcept(FE_ALL_EXCEPT); }});
  all.push_back({"traps, denormal operands too", [] {
                   feenableexcept(FE_ALL_EXCEPT);
                   const uint32_t value = mxcsr() & ~0x0100u;
                   asm volatile("ldmxcsr %0" ::"m"(value));
                 }});
#endif
  return all;
}

// The environment of this thread until the end of the scope.
class Scope {
 public:
  explicit Scope(const Environment& environment) {
    std::fegetenv(&before_);
    environment.set();
  }
  ~Scope() { std::fesetenv(&before_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::fenv_t before_;
};

// Scores near each other, so that rounding shows; values that are denormal in fp32 and in fp16; a bias that underflows.
AttentionCase telling_case(fms_dtype dtype, const Shape& shape) {
  fms_attention_problem problem = simple_problem(dtype, shape);
  problem.features |= FMS_BIAS;
  problem.bias_dtype = FMS_F32;
  problem.bias = {0, 0, 0, 1, 1};
  Random random(7);
  return AttentionCase(problem, {}, [&](Tensor tensor) {
    const double value = random.normal();
    if (tensor == Tensor::kV) return value * (dtype == FMS_F16 ? 0x1p-16 : 0x1p-128);
    return tensor == Tensor::kBias ? -20 * random.uniform() : value;
  });
}

// Everything of the library that computes: init, plan, print, run, merge. Nothing else happens in ask(), where this
// program's own arithmetic would trap.
class Asker {
 public:
  Asker(const fms_context* context, AttentionCase one, const fms_plan_options& options)
      : context_(context), one_(std::move(one)), options_(options) {
    fms_merge_problem_init(&merging_, FMS_F32, 1, 1, kRows, kDim);
    for (size_t i = 0; i < o_a_.size(); ++i) {
      o_a_[i] = static_cast<float>(i % 17) * 0x1p-140f;
      o_b_[i] = static_cast<float>(i % 13) / 3;
    }
  }

  std::vector<uint8_t> ask() {
    one_.reset_outputs();
    const RunResult result = plan_and_run(context_, one_, &options_);
    EXPECT_EQ(result.status, FMS_OK);
    std::vector<uint8_t> answer = one_.output_bytes();
    const auto append = [&](const void* bytes, size_t count) {
      const auto* first = static_cast<const uint8_t*>(bytes);
      answer.insert(answer.end(), first, first + count);
    };
    fms_attention_problem made;
    fms_attention_problem_init(&made, FMS_F16, 1, 3, 1, 7, 9, 77);
    append(&made, sizeof made);
    append(&result.plan, sizeof result.plan);
    char text[4096];
    append(text, fms_plan_json(&result.plan, text, sizeof text));
    append(text, fms_plan_explain(&result.plan, text, sizeof text));
    EXPECT_EQ(fms_merge_states(context_, &merging_, o_a_.data(), lse_a_, o_b_.data(), lse_b_, o_.data(), lse_, nullptr,
                               nullptr),
              FMS_OK);
    append(o_.data(), o_.size() * sizeof(float));
    append(lse_, sizeof lse_);
    return answer;
  }
  std::string describe() const { return one_.describe(); }

 private:
  static constexpr int64_t kRows = 4, kDim = 20'000;  // enough for a parallel region

  const fms_context* context_;
  AttentionCase one_;
  fms_plan_options options_;
  fms_merge_problem merging_;
  std::vector<float> o_a_ = std::vector<float>(kRows * kDim), o_b_ = o_a_, o_ = o_a_;
  float lse_a_[kRows] = {1, 0.3f, -3, 0}, lse_b_[kRows] = {0.1f, 0.2f, 1, -200}, lse_[kRows];
};

// Under a sanitizer one ISA has to do.
std::vector<fms_cpu_isa> isas() {
  const std::vector<fms_cpu_isa> all = available_isas();
  return kSlowBuild ? std::vector<fms_cpu_isa>{all.back()} : all;
}

constexpr Shape kShapes[] = {{1, 4, 2, 70, 90, 64}, {1, 4, 2, 1, 300, 40}};

TEST(FloatEnvironment, OfTheCallerDoesNotMatter) {
  for (const fms_cpu_isa isa : isas()) {
    const Context context = make_context(isa);
    for (const fms_dtype dtype : kAllDtypes) {
      for (const Shape& shape : kShapes) {
        Asker asker(context.get(), telling_case(dtype, shape), plan_options(1, 2, 0));
        const std::vector<uint8_t> expected = asker.ask();
        for (const Environment& environment : environments()) {
          std::vector<uint8_t> got;
          bool is_left = false;
          {
            const Scope scope(environment);
            const auto before = settings();
            got = asker.ask();
            is_left = settings() == before;
          }
          EXPECT_TRUE(is_left) << environment.name;
          EXPECT_TRUE(got == expected) << environment.name << ' ' << fms_cpu_isa_name(isa) << ' ' << asker.describe();
        }
      }
    }
  }
}

// A pool's threads have whatever their last region, or the thread that made them, left behind.
TEST(FloatEnvironment, OfThePoolDoesNotMatter) {
  constexpr int kThreads = 3;
  for (const fms_cpu_isa isa : isas()) {
    const Context context = make_context(isa);
    for (const fms_dtype dtype : kAllDtypes) {
      Asker asker(context.get(), telling_case(dtype, {1, 4, 2, 130, 300, 64}), plan_options(kThreads, 2, 0));
      const std::vector<uint8_t> expected = asker.ask();
      for (const Environment& environment : environments()) {
        std::fenv_t before[kThreads];
        bool is_left[kThreads] = {};
        decltype(settings()) during[kThreads];
#pragma omp parallel num_threads(kThreads)
        {
          std::fegetenv(&before[omp_get_thread_num()]);
          environment.set();
        }
        // LLVM's runtime hands every region the environment that its first thread began with; GNU's does not.
#pragma omp parallel num_threads(kThreads)
        during[omp_get_thread_num()] = settings();
        const std::vector<uint8_t> got = asker.ask();
#pragma omp parallel num_threads(kThreads)
        {
          is_left[omp_get_thread_num()] = settings() == during[omp_get_thread_num()];
          std::fesetenv(&before[omp_get_thread_num()]);
        }
        for (const bool left : is_left) EXPECT_TRUE(left) << environment.name;
        EXPECT_TRUE(got == expected) << environment.name << ' ' << fms_cpu_isa_name(isa) << ' ' << asker.describe();
      }
    }
  }
}

}  // namespace
}  // namespace flashmoe::testing
