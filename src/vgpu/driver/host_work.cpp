#include "vgpu/driver/host_work.hpp"

#include <fmt/format.h>

#include <memory>

#include "vgpu/driver/allocate.hpp"
#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/launch_time.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/watch.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// Whether every piece is inside of one allocation that lives; if not, where the first one is that is not.
bool is_allocated(const State& all, const VgpuHostRange& range, CUdeviceptr& at) {
  const auto is_there = [&](CUdeviceptr address, std::size_t bytes) {
    at = address;
    return address != 0 && is_device_range(all, address, bytes);
  };
  if (is_there(range.address, (range.rows - 1) * range.pitch + range.row_bytes)) return true;
  for (std::size_t row = 0; row < range.rows; ++row)
    if (!is_there(range.address + row * range.pitch, range.row_bytes)) return false;
  return true;
}

template <class Body>
void for_each_piece(const VgpuHostRange& range, const Body& body) {
  if (range.pitch == range.row_bytes) return body(range.address, range.row_bytes * range.rows);
  for (std::size_t row = 0; row < range.rows; ++row) body(range.address + row * range.pitch, range.row_bytes);
}

// One call of a work. What it asks is answered, told to the checks and added up.
struct Call : VgpuHostAccess {
  State* all = nullptr;
  const char* name = nullptr;
  double bytes = 0;
  bool is_faulty = false;

  bool is_allowed(const VgpuHostRange& range, const char* verb) {
    if (range.rows == 0 || range.row_bytes == 0) return true;
    CUdeviceptr at = 0;
    if (!is_allocated(*all, range, at)) {
      is_faulty = true;
      report_host_work_outside(fmt::format("{} {} {} ({} x {} bytes, {} bytes apart, at {:#x}) at {:#x}, which is {}",
                                           name, verb, range.what, range.rows, range.row_bytes, range.pitch,
                                           range.address, at, all->machine->memory->describe(at)));
      return false;
    }
    bytes += static_cast<double>(range.row_bytes) * static_cast<double>(range.rows);
    return true;
  }
};

bool may_read(VgpuHostAccess* access, const VgpuHostRange* range) {
  auto& call = static_cast<Call&>(*access);
  if (!call.is_allowed(*range, "reads")) return false;
  for_each_piece(*range, [&](CUdeviceptr at, std::size_t bytes) {
    read_by_host_work(*call.all->machine->memory, call.name, range->what, at, bytes);
  });
  return true;
}

bool may_write(VgpuHostAccess* access, const VgpuHostRange* range) {
  auto& call = static_cast<Call&>(*access);
  if (!call.is_allowed(*range, "writes")) return false;
  for_each_piece(*range, [&](CUdeviceptr at, std::size_t bytes) { host_wrote(at, bytes); });
  return true;
}

}  // namespace

CUresult host_work(CUstream handle, const VgpuHostWork* asked) {
  if (asked == nullptr || asked->compute == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // A graph has copies of its nodes.
  const std::shared_ptr<void> user(asked->user, [release = asked->release](void* one) {
    if (release != nullptr) release(one);
  });
  return with_context(asked->name, [&](State& all, Context& context) {
    Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // On a card it would be kernels.
    return perform(all, context, *stream, handle, {.type = CU_GRAPH_NODE_TYPE_KERNEL},
                   [user, name = asked->name, compute = asked->compute](State& later, Context& now, CUstream replay) {
                     log_once(fmt::format("{} is computed on the CPU: nothing of it is counted", name));
                     Call call{{.may_read = may_read, .may_write = may_write}, &later, name};
                     compute(user.get(), &call);
                     if (call.is_faulty) now.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
                     Stream* const there = later.stream(replay, now);
                     there->ready_ns =
                         later.start_ns(*there) + copy_time_ns(*later.machine, {.dram_bytes = call.bytes});
                     return CUDA_SUCCESS;
                   });
  });
}

}  // namespace flashmoe::vgpu::driver
