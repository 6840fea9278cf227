// Graphs: what was put into a stream while it was capturing, or what nodes were made one by one, to be done again by
// cuGraphLaunch.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "vgpu/driver/state.hpp"

namespace flashmoe::vgpu::driver {

// Work on a stream; the stream is that of the replay.
using StreamWork = std::function<CUresult(State&, Context&, CUstream)>;

// What stays as it is when a node gets other parameters.
struct NodeKind {
  int type = CU_GRAPH_NODE_TYPE_EMPTY;
  // Of a kernel. One of a library is no context's.
  const Context* owner = nullptr;
  bool is_cooperative = false;
  // Of a copy: CU_MEMORYTYPE_HOST or CU_MEMORYTYPE_DEVICE.
  int to = 0, from = 0;
  bool is_flat = true;                      // a copy or a memset of one dimension
  std::size_t width_bytes = 0, height = 0;  // of a memset of two
  bool operator==(const NodeKind&) const = default;
};

struct Node {
  NodeKind kind{};
  StreamWork work{};
  const void* origin = nullptr;  // in a CUgraphExec: the node of the graph that it was made of
};

// A CUgraph, and as a copy of one a CUgraphExec.
struct Graph {
  Context* context = nullptr;
  std::uint64_t capture_id = 0;  // of the capture that made it, unique in the process
  std::deque<Node> nodes{};      // each stays where it is: its address is its name
  // Of nodes made one by one, by their names; a captured one waits for the one before.
  std::map<const void*, std::vector<const void*>> waits_for{};
  HeldObjects user_objects{};
};

// Does the work now, or keeps it where the stream is capturing. `work` holds copies of everything it needs.
inline CUresult perform(State& all, Context& context, Stream& stream, CUstream handle, const NodeKind& kind,
                        StreamWork work) {
  if (stream.capture == nullptr) return work(all, context, handle);
  stream.capture->nodes.push_back({.kind = kind, .work = std::move(work)});
  return CUDA_SUCCESS;
}

}  // namespace flashmoe::vgpu::driver
