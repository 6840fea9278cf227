// cuLaunchKernel and its relatives.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>

#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/launch.hpp"
#include "vgpu/driver/launch_time.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/registered.hpp"
#include "vgpu/driver/watch.hpp"
#include "vgpu/exec/touched.hpp"
#include "vgpu/ir/readable_name.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// Of the one memory that all devices share; lives as long as that.
memory::Footprint* footprint(const memory::DeviceMemory& memory) {
  static memory::Footprint* const one = memory::Footprint::create(memory).release();
  return one;
}

CUresult refuse(const Function& function, CUresult result, const std::string& why) {
  report_refused(fmt::format("launch of {} refused: {}", ir::readable_name(function.name), why));
  return result;
}

// The errors of a device, with the reason that a device keeps to itself.
CUresult check(Function& function, const ir::Kernel& kernel, CUdevice device, const LaunchRequest& request) {
  const Architecture& limits = function.module->machine->architecture;
  const exec::Dim3 &grid = request.grid, &block = request.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return refuse(
        function, CUDA_ERROR_INVALID_VALUE,
        fmt::format("empty grid {}x{}x{} of blocks {}x{}x{}", grid.x, grid.y, grid.z, block.x, block.y, block.z));
  constexpr auto within = [](const exec::Dim3& extent, const std::int64_t(&most)[3]) {
    return extent.x <= most[0] && extent.y <= most[1] && extent.z <= most[2];
  };
  constexpr const LaunchExtents& most = most_launch_extents;
  if (!within(grid, most.grid))
    return refuse(function, CUDA_ERROR_INVALID_VALUE,
                  fmt::format("grid {}x{}x{}, at most {}x{}x{}", grid.x, grid.y, grid.z, most.grid[0], most.grid[1],
                              most.grid[2]));
  if (block.count() > static_cast<std::uint64_t>(limits.max_threads_per_cta) || !within(block, most.block))
    return refuse(function, CUDA_ERROR_INVALID_VALUE,
                  fmt::format("block {}x{}x{}, at most {} threads and {} in z", block.x, block.y, block.z,
                              limits.max_threads_per_cta, most.block[2]));
  const auto& required = kernel.required_threads;
  if (required[0] != 0 &&
      (block.x != required[0] || block.y != std::max(1u, required[1]) || block.z != std::max(1u, required[2])))
    return refuse(function, CUDA_ERROR_INVALID_VALUE,
                  fmt::format("block {}x{}x{}, the kernel requires {}x{}x{} (.reqntid)", block.x, block.y, block.z,
                              required[0], required[1], required[2]));
  if (kernel.max_threads != 0 && block.count() > kernel.max_threads)
    return refuse(function, CUDA_ERROR_INVALID_VALUE,
                  fmt::format("{} threads, the kernel's launch bounds are {}", block.count(), kernel.max_threads));
  const int most_dynamic_bytes = function.max_dynamic_shared_bytes(device);
  if (request.dynamic_shared_bytes > static_cast<std::uint32_t>(most_dynamic_bytes))
    return refuse(
        function, CUDA_ERROR_INVALID_VALUE,
        fmt::format("{} bytes of dynamic shared memory, at most {}; raise it to at most {} with "
                    "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), in the "
                    "driver API cuFuncSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)",
                    request.dynamic_shared_bytes, most_dynamic_bytes,
                    limits.shared_bytes_per_cta_optin - static_cast<int>(kernel.static_shared_bytes)));
  if (static_cast<int>(kernel.static_shared_bytes) > limits.shared_bytes_per_cta_default)
    return refuse(function, CUDA_ERROR_INVALID_PTX,
                  fmt::format("{} bytes of static shared memory, at most {}", kernel.static_shared_bytes,
                              limits.shared_bytes_per_cta_default));
  return CUDA_SUCCESS;
}

CUresult gather_parameters(const ir::Kernel& kernel, const LaunchRequest& request, std::vector<std::uint8_t>& buffer) {
  if (request.gathered != nullptr) {
    if (request.gathered->size() < kernel.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    buffer.assign(request.gathered->begin(), request.gathered->begin() + kernel.parameter_bytes);
    return CUDA_SUCCESS;
  }
  buffer.assign(kernel.parameter_bytes, 0);
  if (request.extra != nullptr) {
    if (request.parameters != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const void* from = nullptr;
    std::size_t bytes = 0;
    for (void** at = request.extra; *at != nullptr; at += 2) {
      const auto key = reinterpret_cast<std::uintptr_t>(at[0]);
      if (key == 1)  // CU_LAUNCH_PARAM_BUFFER_POINTER
        from = at[1];
      else if (key == 2)  // CU_LAUNCH_PARAM_BUFFER_SIZE
        bytes = *static_cast<const std::size_t*>(at[1]);
      else
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (from == nullptr || bytes < kernel.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(buffer.data(), from, kernel.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (kernel.parameters.empty()) return CUDA_SUCCESS;
  if (request.parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (request.parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(buffer.data() + kernel.parameters[i].offset, request.parameters[i], kernel.parameters[i].bytes);
  }
  return CUDA_SUCCESS;
}

CUresult result_of(exec::Fault::Kind kind) {
  switch (kind) {
    case exec::Fault::Kind::none:
      return CUDA_SUCCESS;
    case exec::Fault::Kind::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case exec::Fault::Kind::misaligned_address:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case exec::Fault::Kind::illegal_instruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case exec::Fault::Kind::timeout:
    case exec::Fault::Kind::deadlock:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case exec::Fault::Kind::assertion:
      return CUDA_ERROR_ASSERT;
    case exec::Fault::Kind::stack_overflow:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case exec::Fault::Kind::trap:
      break;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

// What cooperative_groups' grid.sync() counts arrivals in: its size and a barrier, zero at first.
class GridWorkspace {
 public:
  explicit GridWorkspace(memory::DeviceMemory& memory) : memory_(memory) {
    const auto made = memory.allocate(bytes, "workspace of a cooperative launch");
    if (!made) return;
    address_ = *made;
    std::memset(reinterpret_cast<void*>(address_), 0, bytes);
    host_wrote(address_, bytes);
  }
  ~GridWorkspace() {
    if (address_ != 0) static_cast<void>(memory_.free(address_));
  }
  GridWorkspace(const GridWorkspace&) = delete;
  GridWorkspace& operator=(const GridWorkspace&) = delete;
  [[nodiscard]] std::uint64_t address() const { return address_; }

 private:
  static constexpr std::uint64_t bytes = 64;
  memory::DeviceMemory& memory_;
  std::uint64_t address_ = 0;
};

void print_to_stdout(void* /*user*/, const char* text) {
  std::fputs(text, stdout);
}

std::atomic<bool> launched_any{false};

}  // namespace

bool has_launched() {
  return launched_any;
}

CUresult launch(State& all, Context& current, Function& function, const LaunchRequest& request) {
  Stream* const stream = all.stream(request.stream, current);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // CUDA Driver API, cuLaunchKernel: a kernel of a library, which is nobody's, runs in the context of the stream.
  if (function.module->context != nullptr && stream->context != function.module->context)
    return CUDA_ERROR_INVALID_HANDLE;
  Context& context = *stream->context;
  if (context.sticky != CUDA_SUCCESS) return context.sticky;
  if (const CUresult refused = check_supported(*function.module, function.name); refused != CUDA_SUCCESS)
    return refused;
  const auto made = lowered(function);
  if (!made) return refuse(function, CUDA_ERROR_INVALID_PTX, made.error().to_string());
  const ir::Kernel& kernel = **made;
  // A node's sizes may come later (tinygrad's are 0 until then); its launch is checked again.
  const bool has_sizes = !stream->makes_node || (request.grid.count() != 0 && request.block.count() != 0);
  if (const CUresult wrong = has_sizes ? check(function, kernel, context.device, request) : CUDA_SUCCESS;
      wrong != CUDA_SUCCESS)
    return wrong;

  const Machine& machine = *all.machine;
  exec::Launch run;
  run.kernel = &kernel;
  run.grid = request.grid;
  run.block = request.block;
  run.dynamic_shared_bytes = request.dynamic_shared_bytes;
  if (const CUresult wrong = gather_parameters(kernel, request, run.parameters); wrong != CUDA_SUCCESS) return wrong;
  if (stream->capture != nullptr) {
    LaunchRequest kept = request;
    kept.parameters = kept.extra = nullptr;
    kept.gathered = std::make_shared<const std::vector<std::uint8_t>>(std::move(run.parameters));
    return perform(all, context, *stream, request.stream,
                   {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                    .owner = function.module->context,
                    .is_cooperative = request.is_cooperative},
                   [kept, handle = &function](State& state, Context& now, CUstream replay) mutable {
                     Function* const still = find_function(state, handle);
                     if (still == nullptr) return CUDA_ERROR_INVALID_HANDLE;  // its library was unloaded
                     kept.stream = replay;
                     return launch(state, now, *still, kept);
                   });
  }
  run.schedule = machine.watching.schedule;
  if (const std::uint64_t budget = budget_now(machine.watching); budget != 0) run.instruction_budget = budget;
  run.sm_count = static_cast<std::uint32_t>(machine.gpu.sm_count.value);
  const int resident =
      resident_ctas(function, kernel, static_cast<std::int64_t>(request.block.count()), request.dynamic_shared_bytes);
  if (resident == 0)
    return refuse(function, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "not even one CTA fits on an SM (registers)");
  if (request.is_cooperative && request.grid.count() > std::uint64_t{run.sm_count} * static_cast<unsigned>(resident))
    return refuse(function, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                  fmt::format("{} CTAs, at most {} are resident at once", request.grid.count(),
                              run.sm_count * static_cast<unsigned>(resident)));
  run.resident_ctas_per_sm = static_cast<std::uint32_t>(resident);
  run.sm_clock_mhz = machine.gpu.boost_clock_mhz.value;
  // A warp's clock may be ahead of the stream's, but must not be behind what was read before.
  run.start_ns = std::max(static_cast<std::uint64_t>(all.start_ns(*stream)), all.timer_ns.load());
  run.latest_ns = &all.timer_ns;
  run.grid_id = all.next_id++;
  run.max_warps_per_sm = static_cast<std::uint32_t>(machine.architecture.max_warps_per_sm);
  std::optional<GridWorkspace> workspace;
  if (request.is_cooperative) {
    workspace.emplace(*machine.memory);
    run.grid_workspace = workspace->address();
  }
  run.print = &print_to_stdout;
  // What the kernel needs for certain it gets; how deep a recursion goes is the limit's to say.
  run.stack_bytes = std::max(static_cast<std::uint32_t>(context.limits[CU_LIMIT_STACK_SIZE]), kernel.stack_bytes);
  run.heap = context.heap.get();
  for (const ir::Function& one : kernel.functions) {
    if (one.builtin == "malloc" || one.builtin == "free") context.limits_in_use.insert(CU_LIMIT_MALLOC_HEAP_SIZE);
    if (one.builtin == "vprintf") context.limits_in_use.insert(CU_LIMIT_PRINTF_FIFO_SIZE);
  }

  launched_any = true;
  const Mirrors mirrors(all);
  // Where counters count the bytes of every CTA, nobody asks for these.
  const bool has_counted_bytes = machine.watching.counts() && !machine.watching.sample;
  const exec::CountTouched touched(has_counted_bytes ? nullptr : footprint(*machine.memory));
  WatchedRun done;
  if (machine.watching.notices())
    done = run_watched(run, function);
  else
    done.outcome = exec::run(run, *machine.memory);
  std::fflush(stdout);

  const LaunchFacts facts{.kernel = function.name.c_str(),
                          .grid_ctas = request.grid.count(),
                          .block_threads = request.block.count(),
                          .warp_instructions = done.outcome.warp_instructions,
                          .dram_bytes = done.dram_bytes.value_or(touched.dram_bytes()),
                          .sm_count = run.sm_count,
                          .sm_clock_mhz = run.sm_clock_mhz,
                          .dram_gb_per_s = machine.gpu.dram_gb_per_s.value,
                          .issue_slots_per_sm = static_cast<std::uint32_t>(machine.architecture.sub_partitions_per_sm)};
  stream->ready_ns = all.start_ns(*stream) + done.predicted_ns.value_or(launch_time_ns(facts));

  const exec::Fault& fault = done.outcome.fault;
  if (fault.kind != exec::Fault::Kind::none) {
    context.sticky = result_of(fault.kind);
    log_line(fault.message);
  } else if (done.has_memory_finding) {
    context.sticky = done.is_misaligned ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  // As on a device the launch itself succeeded; its fault comes out of the next call that waits for it.
  return CUDA_SUCCESS;
}

}  // namespace flashmoe::vgpu::driver

using namespace flashmoe::vgpu::driver;

namespace {

CUresult launch_handle(const char* name, CUfunction handle, const LaunchRequest& request) {
  return with_context(name, [&](State& all, Context& context) {
    Function* const function = find_function(all, handle);
    return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : launch(all, context, *function, request);
  });
}

}  // namespace

VGPU_EXPORT CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_bytes,
                                    CUstream stream, void** parameters, void** extra) {
  return launch_handle("cuLaunchKernel", handle,
                       {.grid = {grid_x, grid_y, grid_z},
                        .block = {block_x, block_y, block_z},
                        .dynamic_shared_bytes = dynamic_bytes,
                        .stream = stream,
                        .parameters = parameters,
                        .extra = extra});
}

VGPU_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                               unsigned block_x, unsigned block_y, unsigned block_z,
                                               unsigned dynamic_bytes, CUstream stream, void** parameters) {
  return launch_handle("cuLaunchCooperativeKernel", handle,
                       {.grid = {grid_x, grid_y, grid_z},
                        .block = {block_x, block_y, block_z},
                        .dynamic_shared_bytes = dynamic_bytes,
                        .stream = stream,
                        .parameters = parameters,
                        .is_cooperative = true});
}

VGPU_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters,
                                      void** extra) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  LaunchRequest request{.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                        .dynamic_shared_bytes = config->sharedMemBytes,
                        .stream = config->hStream,
                        .parameters = parameters,
                        .extra = extra};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) request.is_cooperative = attribute.value.cooperative != 0;
    const auto& cluster = attribute.value.clusterDim;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && cluster.x * cluster.y * cluster.z > 1) {
      log_once("launches with thread block clusters: CUDA_ERROR_NOT_SUPPORTED");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    // The others say how soon or with what priority it runs, which changes no result.
  }
  return launch_handle("cuLaunchKernelEx", handle, request);
}

VGPU_PER_THREAD(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz);
VGPU_PER_THREAD(cuLaunchKernel, cuLaunchKernel_ptsz);
VGPU_PER_THREAD(cuLaunchKernelEx, cuLaunchKernelEx_ptsz);
