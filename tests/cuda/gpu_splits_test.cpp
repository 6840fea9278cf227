// CTAs that share the keys of a tile: the last one merges, in a fixed order, and leaves the counters as it found them.
// Replays, two streams, shares of 8 keys, shares of none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "cuda/graphs.hpp"
#include "support/judge.hpp"
#include "support/sanitizers.hpp"

namespace flashmoe::testing {
namespace {

// Of one launch. A sanitizer has seen the code of the host after the first, and launches are slow under it.
constexpr int replays = kSlowBuild ? 1 : 3;

const Gpu& splits_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);  // tiles and splits are forced
    return Gpu();
  }();
  return only;
}

// A problem in device memory with its plan and a workspace of its own, to be launched as often as one likes.
class Launch {
 public:
  Launch(const fms_attention_problem& problem, const fms_plan_options& options, IndexArrays indices = {},
         uint64_t seed = 1)
      : one_(normal_case(problem, seed, std::move(indices))),
        plan_(planned(problem, options)),
        there_(splits_gpu(), one_) {
    workspace_ = must(runtime::Buffer::create(splits_gpu().device(), std::max<std::size_t>(plan_.workspace_bytes, 4)));
    must(workspace_->write(std::vector<std::byte>(workspace_->bytes(), std::byte{0xff})));
  }

  void clear_workspace() { must(workspace_->write(std::vector<std::byte>(workspace_->bytes(), std::byte{0}))); }

  void run(uint32_t flags = 0, fms_stream stream = nullptr) {
    fms_attention_args args = there_.args();
    args.flags = flags;
    fms_error error{};
    ASSERT_EQ(fms_attention_run(splits_gpu().context(), &plan_, &args, reinterpret_cast<void*>(workspace_->address()),
                                plan_.workspace_bytes, stream, &error),
              FMS_OK)
        << to_string(error);
  }

  // So that a launch that does nothing is noticed.
  void spoil_outputs() {
    one_.reset_outputs();
    there_.copy_outputs_to_device(one_);
  }

  // Right, no finding, every counter zero. Returns the bits.
  std::vector<uint8_t> checked() {
    must(splits_gpu().device()->synchronize());
    one_.reset_outputs();
    there_.copy_back(one_);
    EXPECT_EQ(judge(one_, OracleAnswer(one_)).complaint, "") << one_.describe();
    EXPECT_FALSE(one_.stray_write().has_value()) << *one_.stray_write();
    const auto findings = splits_gpu().findings();
    EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600);
    EXPECT_EQ(counters(), std::vector<uint32_t>(counters().size(), 0U)) << one_.describe();
    return one_.output_bytes();
  }

  const fms_attention_plan& plan() const { return plan_; }

 private:
  static fms_attention_plan planned(const fms_attention_problem& problem, const fms_plan_options& options) {
    fms_attention_plan plan{};
    fms_error error{};
    if (fms_attention_plan_make(splits_gpu().context(), &problem, &options, &plan, &error) != FMS_OK)
      throw std::runtime_error(to_string(error));
    return plan;
  }

  // One for each tile, at the end of the workspace.
  std::vector<uint32_t> counters() const {
    if (plan_.kv_splits <= 1) return {};
    std::vector<uint32_t> words(static_cast<std::size_t>(plan_.work_items / plan_.kv_splits));
    std::vector<std::byte> bytes(workspace_->bytes());
    must(workspace_->read(bytes));
    std::memcpy(words.data(), bytes.data() + plan_.workspace_bytes - 4 * words.size(), 4 * words.size());
    return words;
  }

  AttentionCase one_;
  fms_attention_plan plan_;
  DeviceCase there_;
  std::optional<runtime::Buffer> workspace_;
};

fms_attention_problem causal(const Shape& shape) {
  fms_attention_problem problem = simple_problem(FMS_F16, shape);
  problem.window_right = 0;
  return problem;
}

// A run is captured, which does nothing yet, and replayed: with the counters cleared by the graph, and without where
// the workspace is ready.
TEST(Splits, AGraphReplaysTheSameBits) {
  const Graphs graphs(splits_gpu().driver());
  const runtime::cuda::Functions& call = splits_gpu().driver().call();
  for (const uint32_t flags : {uint32_t{0}, uint32_t{FMS_WORKSPACE_READY}}) {
    SCOPED_TRACE(flags);
    Launch launch(causal({1, 2, 1, 40, 300, 64}), plan_options(0, 4, 16));
    launch.run();
    const std::vector<uint8_t> expected = launch.checked();
    runtime::cuda::StreamHandle stream = nullptr;
    ASSERT_EQ(call.stream_create(&stream, 1), 0);
    void* graph = nullptr;
    void* exec = nullptr;
    ASSERT_EQ(graphs.begin(stream, runtime::cuda::CaptureMode::global), 0);
    launch.run(flags, stream);
    EXPECT_TRUE(splits_gpu().reports().empty()) << "a capturing stream ran something";
    ASSERT_EQ(graphs.end(stream, &graph), 0);
    ASSERT_EQ(graphs.instantiate(&exec, graph, 0), 0);
    for (int replay = 0; replay < replays; ++replay) {
      launch.spoil_outputs();
      ASSERT_EQ(graphs.launch(exec, stream), 0);
      EXPECT_EQ(launch.checked(), expected);
    }
    EXPECT_EQ(graphs.destroy_exec(exec), 0);
    EXPECT_EQ(graphs.destroy(graph), 0);
    EXPECT_EQ(call.stream_destroy(stream), 0);
  }
}

// The same launch on the same pointers, again and again. The first run clears the counters of a workspace that held
// anything; a ready one needs the kernel alone.
TEST(Splits, AReplayGivesTheSameBits) {
  for (const int32_t q_tile : {16, 32, 64, 128}) {
    SCOPED_TRACE(q_tile);
    Launch launch(causal({1, 2, 1, 40, 300, 64}), plan_options(0, 4, q_tile));
    launch.run();
    const std::vector<uint8_t> first = launch.checked();
    for (const uint32_t flags : {uint32_t{0}, uint32_t{FMS_WORKSPACE_READY}}) {
      for (int replay = 0; replay < replays; ++replay) {
        launch.run(flags);
        EXPECT_EQ(launch.checked(), first) << "replay " << replay << ", flags " << flags;
      }
    }
    // Without waiting in between.
    for (int replay = 0; replay < std::max(replays, 2); ++replay) launch.run(FMS_WORKSPACE_READY);
    EXPECT_EQ(launch.checked(), first);
  }
}

TEST(Splits, AWorkspaceOfZerosIsReady) {
  Launch launch(causal({1, 2, 1, 40, 300, 64}), plan_options(0, 4, 16));
  launch.clear_workspace();
  launch.run(FMS_WORKSPACE_READY);
  launch.checked();
}

TEST(Splits, TwoStreamsWithTwoWorkspacesDoNotMeet) {
  const runtime::cuda::Functions& call = splits_gpu().driver().call();
  runtime::cuda::StreamHandle streams[2] = {};
  constexpr unsigned non_blocking = 1;
  for (auto& stream : streams) ASSERT_EQ(call.stream_create(&stream, non_blocking), runtime::cuda::success);
  const fms_attention_problem problem = simple_problem(FMS_BF16, {1, 4, 2, 17, 260, 128});
  Launch a(problem, plan_options(0, 5, 16), {}, 1), b(problem, plan_options(0, 5, 16), {}, 2);
  a.run();
  b.run();
  const auto alone_a = a.checked(), alone_b = b.checked();
  EXPECT_NE(alone_a, alone_b);
  for (int turn = 0; turn < 3; ++turn) {
    a.run(FMS_WORKSPACE_READY, streams[0]);
    b.run(FMS_WORKSPACE_READY, streams[1]);
  }
  for (auto& stream : streams) EXPECT_EQ(call.stream_synchronize(stream), runtime::cuda::success);
  EXPECT_EQ(a.checked(), alone_a);
  EXPECT_EQ(b.checked(), alone_b);
  for (auto& stream : streams) EXPECT_EQ(call.stream_destroy(stream), runtime::cuda::success);
}

// Down to 8 keys a CTA, whatever the tile.
TEST(Splits, SharesOf8KeysAreRight) {
  for (const int32_t q_tile : {16, 32, 64, 128}) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << q_tile << " rows, head size " << head_dim);
      Launch launch(causal({1, 1, 1, 33, 128, head_dim}), plan_options(0, 16, q_tile));
      launch.run();
      launch.checked();
    }
  }
}

TEST(Splits, MoreSplitsThanKeysLeaveSomeWithoutAny) {
  for (const int64_t kv_len : {1, 7, 8, 9, 40}) {
    for (const int32_t splits : {2, 5, 64}) {
      SCOPED_TRACE(::testing::Message() << kv_len << " keys, " << splits << " splits");
      Launch launch(simple_problem(FMS_BF16, {1, 2, 1, 3, kv_len, 64}), plan_options(0, splits, 16));
      launch.run();
      launch.checked();
    }
  }
  Launch most(simple_problem(FMS_F16, {1, 1, 1, 1, 16, 64}), plan_options(0, 1024, 16));
  EXPECT_EQ(most.plan().kv_splits, 1024);
  most.run();
  most.checked();
}

// No key at all; keys that only some sequences have; keys that a causal row does not see; a window that leaves most
// splits of a tile without a share.
TEST(Splits, SharesMayBeEmpty) {
  {
    fms_attention_problem nothing = simple_problem(FMS_F16, {1, 2, 1, 5, 0, 64});
    nothing.features |= FMS_SINKS;
    Launch launch(nothing, plan_options(0, 3, 16));
    launch.run();
    launch.checked();
  }
  {
    CoreProblem one{"", simple_problem(FMS_F16, {4, 2, 1, 1, 1, 64}), {}, plan_options(0, 6, 64)};
    one.problem.window_right = 0;
    make_ragged(one, {5, 0, 70, 3}, {90, 20, 30, 0});
    Launch launch(one.problem, one.options, one.indices);
    launch.run();
    launch.checked();
  }
  fms_attention_problem window = causal({1, 1, 1, 130, 130, 64});
  window.window_left = 10;
  Launch launch(window, plan_options(0, 12, 64));
  launch.run();
  launch.checked();
}

}  // namespace
}  // namespace flashmoe::testing
