// User objects: what a program lends to graphs, given back by its own function when the last reference is gone.
#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/log.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// Gives up references. What is left of the object with the last goes out in `last`, to end when nobody holds the
// driver's lock: its function may wait for a thread that wants it.
CUresult release(HeldObjects& all, const void* handle, unsigned count, std::shared_ptr<UserObject>& last) {
  const auto held = all.find(handle);
  if (held == all.end() || count == 0 || count > held->second.references) return CUDA_ERROR_INVALID_VALUE;
  held->second.references -= count;
  if (held->second.references > 0) return CUDA_SUCCESS;
  last = std::move(held->second.object);
  all.erase(held);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace flashmoe::vgpu::driver

using namespace flashmoe::vgpu::driver;

VGPU_EXPORT CUresult cuUserObjectCreate(CUuserObject* out, void* value, CUhostFn destroy, unsigned references,
                                        unsigned flags) {
  return with_driver("cuUserObjectCreate", [&](State& all) {
    if (out == nullptr || destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
      return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<UserObject>(value, destroy);
    *out = handle_of<CUuserObject>(object.get());
    all.user_objects[*out] = {std::move(object), references};
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuUserObjectRetain(CUuserObject handle, unsigned count) {
  return with_driver("cuUserObjectRetain", [&](State& all) {
    const auto held = all.user_objects.find(handle);
    if (held == all.user_objects.end() || count == 0) return CUDA_ERROR_INVALID_VALUE;
    held->second.references += count;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  std::shared_ptr<UserObject> last;
  return with_driver("cuUserObjectRelease", [&](State& all) { return release(all.user_objects, handle, count, last); });
}

VGPU_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned count,
                                             unsigned flags) {
  std::shared_ptr<UserObject> last;
  return with_driver("cuGraphRetainUserObject", [&](State& all) {
    Graph* const graph = all.graphs.find(graph_handle);
    const auto held = all.user_objects.find(handle);
    if (graph == nullptr || held == all.user_objects.end() || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE)
      return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_GRAPH_USER_OBJECT_MOVE && count > held->second.references) return CUDA_ERROR_INVALID_VALUE;
    HeldObject& kept = graph->user_objects[handle];
    kept.object = held->second.object;
    kept.references += count;
    if (flags == CU_GRAPH_USER_OBJECT_MOVE) return release(all.user_objects, handle, count, last);
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned count) {
  std::shared_ptr<UserObject> last;
  return with_driver("cuGraphReleaseUserObject", [&](State& all) {
    Graph* const graph = all.graphs.find(graph_handle);
    return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : release(graph->user_objects, handle, count, last);
  });
}
