// The part of the CUDA driver's documented C ABI that the runtime calls, written down here so that nothing needs a CUDA
// toolkit to build. A test compares it with the toolkit's cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashmoe::runtime::cuda {

using Code = int;  // CUresult
inline constexpr Code success = 0;
inline constexpr Code out_of_memory = 2;
inline constexpr Code no_device = 100;
inline constexpr Code no_binary_for_gpu = 209;
inline constexpr Code unknown_error = 999;

// As drivers count, CUDA 12.0: the first with cuLibraryLoadData, and our PTX is for it. NVIDIA's driver 525.
inline constexpr int oldest_driver = 12000;

using DeviceHandle = int;             // CUdevice
using DeviceAddress = std::uint64_t;  // CUdeviceptr
using ContextHandle = struct ContextOpaque*;
using ModuleHandle = struct ModuleOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using LibraryHandle = struct LibraryOpaque*;
using KernelHandle = struct KernelOpaque*;  // launches as a function does
using StreamHandle = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using GraphHandle = struct GraphOpaque*;
using GraphExecHandle = struct GraphExecOpaque*;

struct Uuid {
  unsigned char bytes[16];
};

// CUstream_flags: the default stream neither waits for such a stream nor it for the default stream.
inline constexpr unsigned stream_non_blocking = 1;

enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_bytes_per_block = 8,
  clock_khz = 13,
  multiprocessor_count = 16,
  memory_clock_khz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_bytes_per_multiprocessor = 81,
  max_shared_bytes_per_block_optin = 97,
};

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_bytes = 1,
  local_bytes = 3,
  registers = 4,
  max_dynamic_shared_bytes = 8,
};

enum class JitOption : int {
  error_log_buffer = 5,
  error_log_bytes = 6,
};

enum class CaptureMode : int {
  global = 0,
  thread_local_ = 1,
  relaxed = 2,
};

// The functions, by the name the driver exports them under.
struct Functions {
  Code (*init)(unsigned flags);
  Code (*driver_version)(int* version);
  Code (*error_name)(Code code, const char** text);
  Code (*error_text)(Code code, const char** text);
  Code (*device_count)(int* count);
  Code (*device_get)(DeviceHandle* device, int ordinal);
  Code (*device_name)(char* name, int bytes, DeviceHandle device);
  Code (*device_attribute)(int* value, DeviceAttribute attribute, DeviceHandle device);
  Code (*primary_retain)(ContextHandle* context, DeviceHandle device);
  Code (*primary_release)(DeviceHandle device);
  Code (*context_push)(ContextHandle context);
  Code (*context_pop)(ContextHandle* context);
  Code (*context_current)(ContextHandle* context);
  Code (*context_device)(DeviceHandle* device);
  Code (*context_synchronize)();
  Code (*module_load)(ModuleHandle* module, const void* image);
  Code (*module_unload)(ModuleHandle module);
  Code (*module_function)(FunctionHandle* function, ModuleHandle module, const char* name);
  Code (*library_load)(LibraryHandle* library, const void* image, int* jit_options, void** jit_values,
                       unsigned jit_count, int* options, void** values, unsigned count);
  Code (*library_unload)(LibraryHandle library);
  Code (*library_kernel)(KernelHandle* kernel, LibraryHandle library, const char* name);
  Code (*kernel_set_attribute)(FunctionAttribute attribute, int value, KernelHandle kernel, DeviceHandle device);
  Code (*function_attribute)(int* value, FunctionAttribute attribute, FunctionHandle function);
  Code (*function_set_attribute)(FunctionHandle function, FunctionAttribute attribute, int value);
  Code (*function_parameter)(FunctionHandle function, std::size_t index, std::size_t* offset,
                             std::size_t* bytes);  // null: a driver older than CUDA 12.4
  Code (*occupancy)(int* blocks, FunctionHandle function, int block_threads, std::size_t dynamic_shared_bytes);
  Code (*allocate)(DeviceAddress* address, std::size_t bytes);
  Code (*free)(DeviceAddress address);
  Code (*copy_to_device)(DeviceAddress to, const void* from, std::size_t bytes);
  Code (*copy_to_host)(void* to, DeviceAddress from, std::size_t bytes);
  Code (*fill)(DeviceAddress to, unsigned char value, std::size_t count);
  Code (*fill_words_async)(DeviceAddress to, unsigned value, std::size_t count, StreamHandle stream);
  Code (*launch)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                 unsigned block_y, unsigned block_z, unsigned dynamic_shared_bytes, StreamHandle stream,
                 void** parameters, void** extra);
  Code (*stream_create)(StreamHandle* stream, unsigned flags);
  Code (*stream_destroy)(StreamHandle stream);
  Code (*stream_synchronize)(StreamHandle stream);
  Code (*exchange_capture_mode)(CaptureMode* mode);
};

// What who measures on a card needs beside them, and nobody else: events, graphs, and which card it is. Drivers of
// CUDA 12.0 have all of it.
struct MeasuringFunctions {
  Code (*device_uuid)(Uuid* uuid, DeviceHandle device);
  Code (*device_pci_bus_id)(char* text, int bytes, DeviceHandle device);
  Code (*copy_to_device_async)(DeviceAddress to, const void* from, std::size_t bytes, StreamHandle stream);
  Code (*event_create)(EventHandle* event, unsigned flags);
  Code (*event_destroy)(EventHandle event);
  Code (*event_record)(EventHandle event, StreamHandle stream);
  Code (*event_synchronize)(EventHandle event);
  Code (*event_elapsed)(float* milliseconds, EventHandle begin, EventHandle end);
  Code (*capture_begin)(StreamHandle stream, CaptureMode mode);
  Code (*capture_end)(StreamHandle stream, GraphHandle* graph);
  Code (*graph_instantiate)(GraphExecHandle* exec, GraphHandle graph, unsigned long long flags);
  Code (*graph_upload)(GraphExecHandle exec, StreamHandle stream);
  Code (*graph_launch)(GraphExecHandle exec, StreamHandle stream);
  Code (*graph_exec_destroy)(GraphExecHandle exec);
  Code (*graph_destroy)(GraphHandle graph);
};

}  // namespace flashmoe::runtime::cuda
