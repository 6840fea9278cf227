// The library on a driver that refuses, is late, has no memory or lies, at each call in turn: a run gives the right
// result, or a message that names the fix and, once the driver behaves, the right result. Each case is a process of its
// own, as kernels stay loaded.
//
//   FMS_FAILING_EVERY=n   every n-th case only; 1: all of them
#include "cuda/failing_driver.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "cuda/gpu_run.hpp"
#include "support/environment.hpp"
#include "support/judge.hpp"
#include "support/sanitizers.hpp"
#include "support/simple_case.hpp"

#if defined(__SANITIZE_ADDRESS__) || FMS_HAS_FEATURE(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif

namespace flashmoe::testing {
namespace {

constexpr int always = INT_MAX;

struct Case {
  const char* function;
  Mischief mischief;
  int count;
};

struct Row {
  const char* function;
  bool gives_something;  // that can be a lie
};
// All that the library calls, which a test below holds it to.
constexpr Row functions[] = {
    {"cuInit", false},
    {"cuDriverGetVersion", true},
    {"cuGetErrorName", true},
    {"cuGetErrorString", true},
    {"cuDeviceGetCount", true},
    {"cuDeviceGet", true},
    {"cuDeviceGetName", true},
    {"cuDeviceGetAttribute", true},
    {"cuCtxGetDevice", true},
    {"cuDevicePrimaryCtxRetain", true},
    {"cuDevicePrimaryCtxRelease_v2", false},
    {"cuCtxPushCurrent_v2", false},
    {"cuCtxPopCurrent_v2", true},
    {"cuThreadExchangeStreamCaptureMode", true},
    {"cuLibraryLoadData", true},
    {"cuLibraryUnload", false},
    {"cuLibraryGetKernel", true},
    {"cuKernelSetAttribute", false},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", true},
    {"cuMemsetD32Async", false},
    {"cuLaunchKernel", false},
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [function, gives_something] : functions)
    for (const int count : {1, always}) {
      for (const Mischief mischief : {Mischief::refuse, Mischief::out_of_memory, Mischief::late})
        cases.push_back({function, mischief, count});
      if (!gives_something) continue;
      for (const Mischief mischief : {Mischief::too_small, Mischief::too_large})
        cases.push_back({function, mischief, count});
    }
  return cases;
}

std::string name_of(const Case& one) {
  constexpr const char* kinds[] = {"none", "refuses", "has no memory", "is late", "gives too little", "gives too much"};
  return std::string(one.function) + " " + kinds[static_cast<int>(one.mischief)] +
         (one.count == always ? ", always" : ", once");
}

// The driver between, for orders.
struct Between {
  decltype(&failing_driver_misbehave) misbehave = nullptr;
  decltype(&failing_driver_behave) behave = nullptr;
  decltype(&failing_driver_called) called = nullptr;
  decltype(&failing_driver_followed) followed = nullptr;
  decltype(&failing_driver_pretend) pretend = nullptr;
  decltype(&failing_driver_cubins) cubins = nullptr;

  Between() {
    void* const handle = dlopen(runtime::system_driver_library().c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto find = [&](auto& function, const char* name) {
      void* const symbol = handle == nullptr ? nullptr : dlsym(handle, name);
      if (symbol == nullptr) throw std::runtime_error(std::string("no failing driver: ") + name);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    };
    find(misbehave, "failing_driver_misbehave");
    find(behave, "failing_driver_behave");
    find(called, "failing_driver_called");
    find(followed, "failing_driver_followed");
    find(pretend, "failing_driver_pretend");
    find(cubins, "failing_driver_cubins");
  }
};

// What a run came to.
struct Attempt {
  fms_status status = FMS_OK;
  std::string message{};  // of a status that is not FMS_OK
  std::string wrong{};    // about the result
  fms_image_kind image = FMS_IMAGE_NONE;
};

Attempt refused(fms_status status, const fms_error& error) {
  return {status, error.message};
}

// Context, plan, run and result, as a program does it that has made no context current when it plans. The memory is
// the other driver's own: what is tried here are the library's calls.
Attempt attempt(const std::shared_ptr<runtime::Context>& device, int32_t q_tile = 16) {
  fms_context_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.device_kind = FMS_DEVICE_CUDA;
  fms_context* made = nullptr;
  fms_error error{};
  if (const fms_status status = fms_context_create(&wanted, &made, &error); status != FMS_OK)
    return refused(status, error);
  const Context context(made);
  AttentionCase one = normal_case(simple_problem(FMS_F16, {1, 1, 1, 16, 64, 32}));
  const OracleAnswer oracle(one);
  one.reset_outputs();
  const fms_plan_options options = plan_options(0, 2, q_tile);
  fms_attention_plan plan{};
  if (const fms_status status = fms_attention_plan_make(made, &one.problem(), &options, &plan, &error);
      status != FMS_OK)
    return refused(status, error);
  const runtime::Context::Current current(*device);
  const DeviceCase there(device, one);
  const fms_attention_args args = there.args();
  runtime::Buffer workspace = must(runtime::Buffer::create(device, plan.workspace_bytes));
  must(workspace.write(std::vector<std::byte>(workspace.bytes(), std::byte{0xff})));
  if (const fms_status status = fms_attention_run(made, &plan, &args, reinterpret_cast<void*>(workspace.address()),
                                                  plan.workspace_bytes, nullptr, &error);
      status != FMS_OK)
    return refused(status, error);
  must(device->synchronize());
  there.copy_back(one);
  fms_kernel_image image{};
  image.struct_size = sizeof image;
  if (const fms_status status = fms_attention_image(made, &plan, &image, &error); status != FMS_OK)
    return refused(status, error);
  return {.wrong = judge(one, oracle).complaint, .image = image.kind};
}

// Likewise a merge.
Attempt attempt_merge(const std::shared_ptr<runtime::Context>& device) {
  fms_context_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.device_kind = FMS_DEVICE_CUDA;
  fms_context* made = nullptr;
  fms_error error{};
  if (const fms_status status = fms_context_create(&wanted, &made, &error); status != FMS_OK)
    return refused(status, error);
  const Context context(made);
  const runtime::Context::Current current(*device);
  // Equal weights, so that the answer is exact: the mean of 1 and 3.
  constexpr std::size_t dim = 4;
  constexpr float o_a[dim] = {1, 1, 1, 1}, o_b[dim] = {3, 3, 3, 3}, sum = 0.5F;
  const auto copy = [&](std::span<const float> values) {
    runtime::Buffer buffer = must(runtime::Buffer::create(device, values.size_bytes()));
    must(buffer.write(std::as_bytes(values)));
    return buffer;
  };
  const runtime::Buffer a = copy(o_a), b = copy(o_b), sum_a = copy({&sum, 1}), sum_b = copy({&sum, 1});
  const runtime::Buffer o = copy(o_a), lse = copy({&sum, 1});
  const auto there = [](const runtime::Buffer& buffer) { return reinterpret_cast<float*>(buffer.address()); };
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, FMS_F32, 1, 1, 1, dim);
  if (const fms_status status = fms_merge_states(made, &problem, there(a), there(sum_a), there(b), there(sum_b),
                                                 there(o), there(lse), nullptr, &error);
      status != FMS_OK)
    return refused(status, error);
  must(device->synchronize());
  float merged[dim];
  must(o.read(std::as_writable_bytes(std::span(merged))));
  return {.wrong = merged[0] == 2 && merged[dim - 1] == 2 ? "" : "merged to " + std::to_string(merged[0])};
}

std::shared_ptr<runtime::Context> device_behind() {
  setenv("VGPU_CHECK", "memcheck", 0);
  setenv("VGPU_PTXAS", "off", 0);  // tiles and splits are forced
  setenv("VGPU_LOG", "off", 0);
  return must(runtime::Context::create(must(runtime::Driver::open(std::getenv("FLASHMOE_TEST_DRIVER")))));
}

// Empty: as it should be.
template <class Try>
std::string complaint_about(const Case& one, const Try& attempt) {
  const Between between;
  const auto device = device_behind();
  between.misbehave(one.function, one.mischief, 0, one.count);
  const std::string function = one.function;
  // What is only called when something went wrong.
  if (function.starts_with("cuGetError"))
    between.misbehave("cuLaunchKernel", Mischief::refuse, 0, 1);
  else if (function == "cuLibraryUnload")
    between.misbehave("cuOccupancyMaxActiveBlocksPerMultiprocessor", Mischief::refuse, 0, 1);
  const Attempt first = attempt(device);
  if (between.followed() == 0) return "it was never called";
  if (!first.wrong.empty()) return "a wrong result: " + first.wrong;
  if (first.status != FMS_OK && first.message.find("(fix: ") == std::string::npos)
    return "no fix is named: " + first.message;
  if (first.status == FMS_OK && one.mischief == Mischief::out_of_memory && function == "cuLaunchKernel")
    return "a refused launch was taken for one";
  if (one.mischief == Mischief::late && first.status != FMS_OK && !function.starts_with("cuGetError"))
    return "late, and it gave up: " + first.message;
  between.behave();
  const Attempt second = attempt(device);
  if (second.status != FMS_OK) return "remembered: " + second.message + " (at first: " + first.message + ")";
  return second.wrong;
}

// Runs `body` in a process of its own, and returns what it says.
template <class Body>
std::string in_a_process(const Body& body) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string said;
    try {
      said = body();
    } catch (const std::exception& problem) {
      said = problem.what();
    }
    bool is_clean = true;
#if defined(__SANITIZE_ADDRESS__) || FMS_HAS_FEATURE(address_sanitizer)
    is_clean = __lsan_do_recoverable_leak_check() == 0;
#endif
    const bool is_written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(is_clean && is_written ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char bytes[256];
  for (ssize_t count = 0; (count = read(ends[0], bytes, sizeof bytes)) > 0;) said.append(bytes, bytes + count);
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    said += " (the process did not end well)";
  return said;
}

TEST(FailingDriver, EndsInAResultOrAFix) {
  const std::vector<Case> cases = all_cases();
  ASSERT_GE(cases.size(), 60U);
  const uint64_t every = from_environment("FMS_FAILING_EVERY", kSlowBuild ? 29 : 7);
  std::size_t run = 0;
  for (std::size_t i = 0; i < cases.size(); i += every, ++run)
    EXPECT_EQ(
        in_a_process([&] { return complaint_about(cases[i], [](const auto& device) { return attempt(device); }); }), "")
        << name_of(cases[i]);
  std::cout << run << " of " << cases.size() << " cases\n";
}

// Its kernel is loaded and launched by calls of its own; opening the device is tried above.
TEST(FailingDriver, SoDoesAMerge) {
  const std::set<std::string> its_own = {
      "cuThreadExchangeStreamCaptureMode",           "cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelSetAttribute",
      "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuLaunchKernel"};
  const uint64_t every = from_environment("FMS_FAILING_EVERY", kSlowBuild ? 29 : 7);
  std::size_t at = 0;
  for (const Case& one : all_cases()) {
    if (!its_own.contains(one.function) || at++ % every != 0) continue;
    EXPECT_EQ(in_a_process([&] { return complaint_about(one, attempt_merge); }), "") << name_of(one);
  }
}

TEST(FailingDriver, AllCallsOfTheLibraryAreTried) {
  EXPECT_EQ(in_a_process([] {
              const Between between;
              const auto device = device_behind();
              // Once with a fault on the way, for what is called then.
              between.misbehave("cuOccupancyMaxActiveBlocksPerMultiprocessor", Mischief::refuse, 0, always);
              static_cast<void>(attempt(device));
              between.behave();
              static_cast<void>(attempt(device));
              const char* names[64];
              const int count = between.called(names, 64);
              std::set<std::string> called(names, names + count), tried;
              for (const Row& row : functions) tried.insert(row.function);
              std::string differences;
              for (const std::string& one : called)
                if (!tried.contains(one)) differences += one + " is called and not in the table; ";
              for (const std::string& one : tried)
                if (!called.contains(one)) differences += one + " is in the table and not called; ";
              return differences;
            }),
            "");
}

// The first class has two images of its own, both refused; the other one serves.
TEST(FailingDriver, OneClassThatFailsTakesNoOtherAlong) {
  EXPECT_EQ(in_a_process([]() -> std::string {
              const Between between;
              const auto device = device_behind();
              between.misbehave("cuLibraryLoadData", Mischief::refuse, 0, 2);
              const Attempt other = attempt(device, 0);
              if (other.status != FMS_OK) return other.message;
              if (between.followed() != 2) return "not refused twice";
              between.behave();
              const Attempt again = attempt(device, 64);
              return other.wrong + (again.status != FMS_OK ? again.message : again.wrong);
            }),
            "");
}

TEST(FailingDriver, AnOldDriverIsNamed) {
  EXPECT_EQ(in_a_process([]() -> std::string {
              const Between between;
              between.pretend(11080);
              const auto device = device_behind();
              const Attempt old = attempt(device);
              if (old.status == FMS_OK) return "it was taken";
              const bool is_named = old.message.find("driver for CUDA 11.8") != std::string::npos &&
                                    old.message.find("525, for CUDA 12.0") != std::string::npos;
              return is_named ? "" : old.message;
            }),
            "");
}

// It might choose a cubin that it cannot read, so it is never shown one.
TEST(FailingDriver, ADriverOlderThanTheCubinsGetsPtx) {
  for (const int version : {12000, 12040, 12090}) {
    EXPECT_EQ(in_a_process([&]() -> std::string {
                const Between between;
                between.pretend(version);
                const auto device = device_behind();
                const Attempt old = attempt(device);
                if (between.cubins() != 0) return "a cubin was offered";
                if (old.image != FMS_IMAGE_PTX) return "the library names another image";
                return old.status != FMS_OK ? old.message : old.wrong;
              }),
              "")
        << version;
  }
}

}  // namespace
}  // namespace flashmoe::testing
