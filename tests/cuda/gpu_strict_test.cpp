// What NVIDIA's driver documents as refused, on a virtual GPU that refuses it too: captures that are disturbed, no
// current context, handles of others and of the past. The library lives with all of it.
#include <gtest/gtest.h>

#include <future>

#include "cuda/device_run.hpp"
#include "cuda/graphs.hpp"

namespace flashmoe::testing {
namespace {

using runtime::cuda::CaptureMode;
using runtime::cuda::success;

constexpr runtime::cuda::Code invalid_context = 201, invalid_handle = 400;

// Kernels stay loaded for the process: each test takes a head size of its own, so that it is the first to load.
fms_attention_problem problem_of(int64_t head_dim) {
  return simple_problem(FMS_F16, {1, 1, 1, 16, 64, head_dim});
}

class Strict : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("VGPU_CHECK", "memcheck", 0);
    setenv("VGPU_PTXAS", "off", 0);  // tiles and splits are forced
    setenv("VGPU_LOG", "off", 0);
  }
  void SetUp() override {
    driver_ = must(runtime::Driver::open(runtime::system_driver_library()));
    device_ = must(runtime::Context::create(driver_));
    graphs_.emplace(*driver_);
    const runtime::Context::Current current(*device_);
    ASSERT_EQ(call().stream_create(&stream_, 1), success);
  }
  void TearDown() override {
    const runtime::Context::Current current(*device_);
    EXPECT_EQ(call().stream_destroy(stream_), success);
  }
  [[nodiscard]] const runtime::cuda::Functions& call() const { return driver_->call(); }

  // A capture of this thread, with `body` in it; what ending it says.
  template <class Body>
  runtime::cuda::Code captured(CaptureMode mode, const Body& body, void** graph = nullptr) {
    void* ignored = nullptr;
    EXPECT_EQ(graphs_->begin(stream_, mode), success);
    body();
    const auto ended = graphs_->end(stream_, graph != nullptr ? graph : &ignored);
    if (ignored != nullptr) {
      EXPECT_EQ(graphs_->destroy(ignored), success);
    }
    return ended;
  }

  std::shared_ptr<const runtime::Driver> driver_{};
  std::shared_ptr<runtime::Context> device_{};
  std::optional<Graphs> graphs_{};
  runtime::cuda::StreamHandle stream_ = nullptr;
};

TEST_F(Strict, AllocatingSpoilsAGlobalCaptureOfAnyThread) {
  const runtime::Context::Current current(*device_);
  runtime::cuda::DeviceAddress address = 0;
  EXPECT_EQ(
      captured(CaptureMode::global, [&] { EXPECT_EQ(call().allocate(&address, 64), Graphs::capture_unsupported); }),
      Graphs::capture_invalidated);
  const auto elsewhere = [&] {
    return std::async(std::launch::async,
                      [&] {
                        const runtime::Context::Current there(*device_);
                        runtime::cuda::DeviceAddress other = 0;
                        const auto code = call().allocate(&other, 64);
                        if (code == success) {
                          EXPECT_EQ(call().free(other), success);
                        }
                        return code;
                      })
        .get();
  };
  EXPECT_EQ(captured(CaptureMode::global, [&] { EXPECT_EQ(elsewhere(), Graphs::capture_unsupported); }),
            Graphs::capture_invalidated);
  EXPECT_EQ(captured(CaptureMode::thread_local_, [&] { EXPECT_EQ(elsewhere(), success); }), success);
  EXPECT_EQ(captured(CaptureMode::relaxed,
                     [&] {
                       ASSERT_EQ(call().allocate(&address, 64), success);
                       EXPECT_EQ(call().free(address), success);
                     }),
            success);
  // A thread that says so may.
  CaptureMode mode = CaptureMode::relaxed;
  ASSERT_EQ(call().exchange_capture_mode(&mode), success);
  EXPECT_EQ(mode, CaptureMode::global);
  EXPECT_EQ(captured(CaptureMode::global,
                     [&] {
                       ASSERT_EQ(call().allocate(&address, 64), success);
                       EXPECT_EQ(call().free(address), success);
                     }),
            success);
  ASSERT_EQ(call().exchange_capture_mode(&mode), success);
  EXPECT_EQ(mode, CaptureMode::relaxed);
}

TEST_F(Strict, LoadingAndWaitingSpoilACapture) {
  const runtime::Context::Current current(*device_);
  constexpr const char* text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";
  runtime::cuda::LibraryHandle library = nullptr;
  const auto load = [&] { return call().library_load(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0); };
  EXPECT_EQ(captured(CaptureMode::global, [&] { EXPECT_EQ(load(), Graphs::capture_unsupported); }),
            Graphs::capture_invalidated);
  EXPECT_EQ(
      captured(CaptureMode::global, [&] { EXPECT_EQ(call().context_synchronize(), Graphs::capture_unsupported); }),
      Graphs::capture_invalidated);
  ASSERT_EQ(load(), success);
  EXPECT_EQ(
      captured(CaptureMode::global, [&] { EXPECT_EQ(call().library_unload(library), Graphs::capture_unsupported); }),
      Graphs::capture_invalidated);
  EXPECT_EQ(call().library_unload(library), success);
}

TEST_F(Strict, OccupancyWantsACurrentContext) {
  constexpr const char* text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";
  runtime::cuda::LibraryHandle library = nullptr;
  runtime::cuda::KernelHandle kernel = nullptr;
  ASSERT_EQ(call().library_load(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0), success);
  ASSERT_EQ(call().library_kernel(&kernel, library, "nothing"), success);
  const auto function = reinterpret_cast<runtime::cuda::FunctionHandle>(kernel);
  int ctas = 0;
  EXPECT_EQ(call().occupancy(&ctas, function, 32, 0), invalid_context);
  EXPECT_EQ(call().launch(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), invalid_context);
  const runtime::Context::Current current(*device_);
  EXPECT_EQ(call().occupancy(&ctas, function, 32, 0), success);
  EXPECT_GT(ctas, 0);
  EXPECT_EQ(call().launch(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), success);
  // And nothing of it lives on.
  void* graph = nullptr;
  ASSERT_EQ(captured(
                CaptureMode::global,
                [&] { EXPECT_EQ(call().launch(function, 1, 1, 1, 32, 1, 1, 0, stream_, nullptr, nullptr), success); },
                &graph),
            success);
  void* exec = nullptr;
  ASSERT_EQ(graphs_->instantiate(&exec, graph, 0), success);
  EXPECT_EQ(graphs_->launch(exec, stream_), success);
  ASSERT_EQ(call().library_unload(library), success);
  EXPECT_EQ(call().launch(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), invalid_handle);
  EXPECT_EQ(graphs_->launch(exec, stream_), invalid_handle);
  EXPECT_EQ(graphs_->destroy_exec(exec), success);
  EXPECT_EQ(graphs_->destroy(graph), success);
}

TEST_F(Strict, TheLibraryPlansWithoutACurrentContext) {
  DeviceRun run(device_, 0, problem_of(32));
  runtime::cuda::ContextHandle current = nullptr;
  ASSERT_EQ(call().context_current(&current), success);
  ASSERT_EQ(current, nullptr);
  run.plan();
  fms_error error{};
  ASSERT_EQ(call().context_current(&current), success);
  EXPECT_EQ(current, nullptr) << "it left one behind";
  EXPECT_EQ(run.prepare(&error), FMS_OK) << error.message;
  run.allocate();
  EXPECT_EQ(run.run(nullptr, &error), FMS_DEVICE_ERROR);
  EXPECT_NE(std::string(error.message).find("make a context of this GPU current"), std::string::npos) << error.message;
  const runtime::Context::Current now(*device_);
  ASSERT_EQ(run.run(nullptr, &error), FMS_OK) << error.message;
  EXPECT_EQ(run.complaint(), "");
}

// Kernels are loaded, by plan and by run, while this thread and another one capture.
TEST_F(Strict, TheLibraryLoadsWhileStreamsCapture) {
  const runtime::Context::Current current(*device_);
  DeviceRun run(device_, 0, problem_of(64));
  EXPECT_EQ(captured(CaptureMode::global, [&] { run.plan(); }), success);
  run.allocate();
  void* graph = nullptr;
  fms_error error{};
  ASSERT_EQ(captured(
                CaptureMode::global, [&] { EXPECT_EQ(run.run(stream_, &error), FMS_OK) << error.message; }, &graph),
            success);
  void* exec = nullptr;
  ASSERT_EQ(graphs_->instantiate(&exec, graph, 0), success);
  ASSERT_EQ(graphs_->launch(exec, stream_), success);
  EXPECT_EQ(run.complaint(), "");
  // The context goes, with work queued and a graph that holds its kernel.
  run.spoil();
  ASSERT_EQ(graphs_->launch(exec, stream_), success);
  run.destroy_context();
  EXPECT_EQ(run.complaint(), "");
  run.spoil();
  ASSERT_EQ(graphs_->launch(exec, stream_), success);
  EXPECT_EQ(run.complaint(), "");
  EXPECT_EQ(graphs_->destroy_exec(exec), success);
  EXPECT_EQ(graphs_->destroy(graph), success);
}

TEST_F(Strict, TheLibraryLoadsWhileAnotherThreadCaptures) {
  const runtime::Context::Current current(*device_);
  DeviceRun run(device_, 0, problem_of(80));
  EXPECT_EQ(captured(CaptureMode::global,
                     [&] {
                       std::async(std::launch::async, [&] {
                         const runtime::Context::Current there(*device_);
                         run.plan();
                       }).get();
                     }),
            success);
  run.allocate();
  fms_error error{};
  ASSERT_EQ(run.run(nullptr, &error), FMS_OK) << error.message;
  EXPECT_EQ(run.complaint(), "");
}

TEST_F(Strict, AForeignStreamIsNamed) {
  const runtime::Context::Current current(*device_);
  DeviceRun run(device_, 0, problem_of(96));
  run.plan();
  run.allocate();
  runtime::cuda::StreamHandle gone = nullptr;
  ASSERT_EQ(call().stream_create(&gone, 1), success);
  ASSERT_EQ(call().stream_destroy(gone), success);
  fms_error error{};
  EXPECT_EQ(run.run(gone, &error), FMS_DEVICE_ERROR);
  EXPECT_NE(std::string(error.message).find("pass a stream of this GPU that still exists"), std::string::npos)
      << error.message;
}

}  // namespace
}  // namespace flashmoe::testing
