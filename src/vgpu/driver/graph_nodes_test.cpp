// Graphs made node by node, and what may be changed of them once they are executable.
#include <vector>

#include "vgpu/driver/loaded_driver.hpp"

namespace flashmoe::vgpu::driver {
namespace {

constexpr std::size_t word_count = 16;

class GraphNodes : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    fill_ = function(linked(), "fill");
    for (CUdeviceptr* one : {&first_, &second_}) {
      ASSERT_EQ(call("cuMemAlloc", one, word_count * 4), CUDA_SUCCESS);
      ASSERT_EQ(call("cuMemsetD32", *one, 1U, word_count), CUDA_SUCCESS);
    }
    ASSERT_EQ(call("cuGraphCreate", &graph_, 0U), CUDA_SUCCESS);
  }

  static CUgraphExec executable(CUgraph graph) {
    CUgraphExec made = nullptr;
    EXPECT_EQ(call("cuGraphInstantiateWithFlags", &made, graph, 0ULL), CUDA_SUCCESS);
    return made;
  }
  static void run(CUgraphExec exec) { ASSERT_EQ(call("cuGraphLaunch", exec, CUstream{}), CUDA_SUCCESS); }
  static unsigned word(CUdeviceptr at, std::size_t index) {
    unsigned read = 0;
    EXPECT_EQ(call("cuMemcpyDtoH", static_cast<void*>(&read), at + index * 4, std::size_t{4}), CUDA_SUCCESS);
    return read;
  }
  static CUDA_MEMCPY3D copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    CUDA_MEMCPY3D what{};
    what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    what.srcDevice = from;
    what.dstDevice = to;
    what.WidthInBytes = what.srcPitch = what.dstPitch = bytes;
    what.Height = what.Depth = what.srcHeight = what.dstHeight = 1;
    return what;
  }
  CUDA_KERNEL_NODE_PARAMS_v1 kernel(void** parameters, unsigned threads) const {
    return {fill_, 1, 1, 1, threads, 1, 1, 0, parameters, nullptr};
  }

  CUfunction fill_ = nullptr;
  CUdeviceptr first_ = 0, second_ = 0;
  CUgraph graph_ = nullptr;
};

// As tinygrad makes its graphs: by the functions' exported names, and kernel nodes as they were before CUDA 12.
TEST_F(GraphNodes, ThoseOfTheFirstVersionGetOtherArgumentsAtTheNextLaunch) {
  const auto add =
      exported<CUresult (*)(void**, CUgraph, void* const*, std::size_t, const CUDA_KERNEL_NODE_PARAMS_v1*)>(
          "cuGraphAddKernelNode");
  const auto set =
      exported<CUresult (*)(CUgraphExec, void*, const CUDA_KERNEL_NODE_PARAMS_v1*)>("cuGraphExecKernelNodeSetParams");
  const auto instantiate =
      exported<CUresult (*)(CUgraphExec*, CUgraph, void**, char*, std::size_t)>("cuGraphInstantiate_v2");
  // Behind the structure of the first version lies something else.
  struct {
    CUDA_KERNEL_NODE_PARAMS_v1 what;
    std::uint64_t behind[2];
  } asked{};
  unsigned value = 20;
  void* parameters[] = {&first_, &value};
  asked.what = kernel(parameters, 4);
  asked.behind[0] = asked.behind[1] = ~std::uint64_t{0};
  void *node = nullptr, *copied = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(add(&node, graph_, nullptr, 0, &asked.what), CUDA_SUCCESS);
  CUDA_MEMCPY3D across = copy(second_, first_, 16);
  ASSERT_EQ(call("cuGraphAddMemcpyNode", &copied, graph_, &node, std::size_t{1}, &across, context_), CUDA_SUCCESS);
  ASSERT_EQ(instantiate(&exec, graph_, nullptr, nullptr, 0), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(word(second_, 3), 23U);
  EXPECT_EQ(word(first_, 4), 1U);

  value = 30;
  run(exec);
  EXPECT_EQ(word(second_, 3), 23U) << "arguments are those of the call";
  asked.what.blockDimX = 8;
  ASSERT_EQ(set(exec, node, &asked.what), CUDA_SUCCESS);
  across = copy(second_ + 32, first_ + 16, 16);
  ASSERT_EQ(call("cuGraphExecMemcpyNodeSetParams", exec, copied, &across, context_), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(word(first_, 7), 37U);
  EXPECT_EQ(word(second_, 11), 37U);
  EXPECT_EQ(word(second_, 3), 23U);

  // The graph is what it was, and so is what is made of it.
  run(executable(graph_));
  EXPECT_EQ(word(second_, 3), 23U);
  // Its own node: what is executable already stays.
  const auto set_own = exported<CUresult (*)(void*, const CUDA_KERNEL_NODE_PARAMS_v1*)>("cuGraphKernelNodeSetParams");
  value = 40;
  ASSERT_EQ(set_own(node, &asked.what), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(word(first_, 7), 37U);
  run(executable(graph_));
  EXPECT_EQ(word(second_, 3), 43U);
}

TEST_F(GraphNodes, StayOfTheirKind) {
  unsigned value = 5;
  void* parameters[] = {&first_, &value};
  const CUDA_KERNEL_NODE_PARAMS_v1 old = kernel(parameters, 4);
  CUDA_KERNEL_NODE_PARAMS launch{};
  std::memcpy(&launch, &old, sizeof old);
  const CUDA_MEMCPY3D across = copy(second_, first_, 16);
  CUDA_MEMSET_NODE_PARAMS zero{
      .dst = second_, .pitch = 0, .value = 0, .elementSize = 4, .width = word_count, .height = 1};
  int calls = 0;
  const CUDA_HOST_NODE_PARAMS count{.fn = [](void* user) { ++*static_cast<int*>(user); }, .userData = &calls};
  void *launched = nullptr, *copied = nullptr, *filled = nullptr, *counted = nullptr;
  void** const none = nullptr;
  ASSERT_EQ(call("cuGraphAddKernelNode", &launched, graph_, none, std::size_t{0}, &launch), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphAddMemcpyNode", &copied, graph_, &launched, std::size_t{1}, &across, context_), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphAddMemsetNode", &filled, graph_, &copied, std::size_t{1}, &zero, context_), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphAddHostNode", &counted, graph_, &filled, std::size_t{1}, &count), CUDA_SUCCESS);
  int type = -1;
  ASSERT_EQ(call("cuGraphNodeGetType", filled, &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMSET);
  EXPECT_EQ(call("cuGraphNodeGetType", static_cast<void*>(&type), &type), CUDA_ERROR_INVALID_VALUE);

  const CUgraphExec exec = executable(graph_);
  EXPECT_EQ(call("cuGraphExecKernelNodeSetParams", exec, copied, &launch), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuGraphExecMemcpyNodeSetParams", exec, launched, &across, context_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuGraphExecMemsetNodeSetParams", exec, counted, &zero, context_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuGraphExecHostNodeSetParams", exec, filled, &count), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuGraphExecKernelNodeSetParams", exec, static_cast<void*>(&calls), &launch),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuGraphExecKernelNodeSetParams", CUgraphExec{}, launched, &launch), CUDA_ERROR_INVALID_VALUE);
  launch.blockDimX = 1025;
  EXPECT_EQ(call("cuGraphExecKernelNodeSetParams", exec, launched, &launch), CUDA_ERROR_INVALID_VALUE);
  // A copy stays of one dimension, and between memories of the same kinds.
  CUDA_MEMCPY3D other = across;
  other.Height = 2;
  EXPECT_EQ(call("cuGraphExecMemcpyNodeSetParams", exec, copied, &other, context_), CUDA_ERROR_INVALID_VALUE);
  unsigned host[4] = {};
  other = across;
  other.dstMemoryType = CU_MEMORYTYPE_HOST;
  other.dstHost = host;
  EXPECT_EQ(call("cuGraphExecMemcpyNodeSetParams", exec, copied, &other, context_), CUDA_ERROR_INVALID_VALUE);
  zero.height = 2;
  zero.width = 4;
  zero.pitch = 16;
  EXPECT_EQ(call("cuGraphExecMemsetNodeSetParams", exec, filled, &zero, context_), CUDA_ERROR_INVALID_VALUE);

  // None of these changed anything; what may change does.
  run(exec);
  EXPECT_EQ(word(first_, 3), 8U);
  EXPECT_EQ(word(second_, word_count - 1), 0U);
  zero.height = 1;
  zero.value = 6;
  ASSERT_EQ(call("cuGraphExecMemsetNodeSetParams", exec, filled, &zero, context_), CUDA_SUCCESS);
  int others = 0;
  const CUDA_HOST_NODE_PARAMS elsewhere{.fn = count.fn, .userData = &others};
  ASSERT_EQ(call("cuGraphExecHostNodeSetParams", exec, counted, &elsewhere), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(word(second_, 3), 6U);
  EXPECT_EQ(word(second_, 4), 0U);
  EXPECT_TRUE(calls == 1 && others == 1);
}

// tinygrad's symbolic shapes: the sizes are known when the graph is to run.
TEST_F(GraphNodes, SizesMayComeLater) {
  unsigned value = 5;
  void* parameters[] = {&first_, &value};
  const CUDA_KERNEL_NODE_PARAMS_v1 old = kernel(parameters, 4);
  CUDA_KERNEL_NODE_PARAMS launch{};
  std::memcpy(&launch, &old, sizeof old);
  launch.gridDimX = 0;
  void *node = nullptr, **const none = nullptr;
  ASSERT_EQ(call("cuGraphAddKernelNode", &node, graph_, none, std::size_t{0}, &launch), CUDA_SUCCESS);
  const CUgraphExec exec = executable(graph_);
  EXPECT_EQ(call("cuGraphLaunch", exec, CUstream{}), CUDA_ERROR_INVALID_VALUE);
  launch.gridDimX = 1;
  ASSERT_EQ(call("cuGraphExecKernelNodeSetParams", exec, node, &launch), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(word(first_, 3), 8U);
}

// A program that captures the same work again gives it to the executable graph that it has.
TEST_F(GraphNodes, AnotherGraphOfTheSameFormGivesItsParameters) {
  CUstream stream = nullptr;
  ASSERT_EQ(call("cuStreamCreate", &stream, 1U), CUDA_SUCCESS);
  const auto captured = [&](unsigned value, CUdeviceptr to, bool is_longer) {
    CUgraph made = nullptr;
    void* parameters[] = {&to, &value};
    EXPECT_EQ(call("cuStreamBeginCapture", stream, 0), CUDA_SUCCESS);
    EXPECT_EQ(call("cuMemsetD32Async", to, value, word_count, stream), CUDA_SUCCESS);
    EXPECT_EQ(call("cuLaunchKernel", fill_, 1U, 1U, 1U, 8U, 1U, 1U, 0U, stream, static_cast<void**>(parameters),
                   static_cast<void**>(nullptr)),
              CUDA_SUCCESS);
    if (is_longer) {
      EXPECT_EQ(call("cuMemsetD32Async", to, value, word_count, stream), CUDA_SUCCESS);
    }
    EXPECT_EQ(call("cuStreamEndCapture", stream, &made), CUDA_SUCCESS);
    return made;
  };
  const CUgraph first = captured(10, first_, false);
  const CUgraphExec exec = executable(first);
  ASSERT_EQ(call("cuGraphDestroy", first), CUDA_SUCCESS);
  CUgraphExecUpdateResultInfo told{};
  ASSERT_EQ(call("cuGraphExecUpdate", exec, captured(70, second_, false), &told), CUDA_SUCCESS);
  EXPECT_EQ(told.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  run(exec);
  EXPECT_EQ(word(first_, 0), 1U);
  EXPECT_EQ(word(second_, 7), 77U);
  EXPECT_EQ(word(second_, 8), 70U);

  ASSERT_EQ(call("cuGraphExecUpdate", exec, captured(5, first_, true), &told), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(told.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(told.errorNode, nullptr);
  // As many nodes, but of other kinds; then of the same kinds, but side by side.
  unsigned value = 3;
  void* parameters[] = {&first_, &value};
  const CUDA_KERNEL_NODE_PARAMS_v1 old = kernel(parameters, 4);
  CUDA_KERNEL_NODE_PARAMS launch{};
  std::memcpy(&launch, &old, sizeof old);
  const CUDA_MEMSET_NODE_PARAMS zero{
      .dst = second_, .pitch = 0, .value = 0, .elementSize = 4, .width = word_count, .height = 1};
  void *one = nullptr, *two = nullptr, **const none = nullptr;
  ASSERT_EQ(call("cuGraphAddKernelNode", &one, graph_, none, std::size_t{0}, &launch), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphAddMemsetNode", &two, graph_, &one, std::size_t{1}, &zero, context_), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphExecUpdate", exec, graph_, &told), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(told.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(told.errorNode, one);
  CUgraph wide = nullptr;
  ASSERT_EQ(call("cuGraphCreate", &wide, 0U), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphAddMemsetNode", &one, wide, none, std::size_t{0}, &zero, context_), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphAddKernelNode", &two, wide, none, std::size_t{0}, &launch), CUDA_SUCCESS);
  const auto update = exported<CUresult (*)(CUgraphExec, CUgraph, void**, int*)>("cuGraphExecUpdate");
  int result = -1;
  void* where = nullptr;
  ASSERT_EQ(update(exec, wide, &where, &result), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(where, two);
  run(exec);
  EXPECT_EQ(word(second_, 7), 77U) << "a refused update changes nothing";
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
