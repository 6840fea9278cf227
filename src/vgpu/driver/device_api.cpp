// Initialisation, and what can be asked about the device.
#include <algorithm>
#include <cstring>
#include <string>

#include "vgpu/driver/device_attributes.hpp"
#include "vgpu/driver/forked.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/state.hpp"

using namespace flashmoe;
using namespace flashmoe::vgpu::driver;

namespace {

CUresult about_device(const char* function, CUdevice device, const std::function<CUresult(State&)>& body) {
  return with_driver(function, [&](State& all) { return all.has(device) ? body(all) : CUDA_ERROR_INVALID_DEVICE; });
}

}  // namespace

// Not CUDA's: who loads a driver can tell before cuInit that no card stands behind it (runtime::is_virtual_driver).
extern "C" __attribute__((visibility("default"))) const char* vgpu_identity() {
  static const std::string& text = *new std::string("virtual GPU " + gpu_id());
  return text.c_str();
}

VGPU_EXPORT CUresult cuInit(unsigned flags) {
  log_call("cuInit");
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_refused_child()) return CUDA_ERROR_NOT_INITIALIZED;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto made = machine();
  if (!made) {
    log_line(made.error().to_string());
    return CUDA_ERROR_NO_DEVICE;
  }
  all.machine = *made;
  all.primaries.resize(all.machine->count);
  refuse_in_children();
  return CUDA_SUCCESS;
}

VGPU_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto known = driver_version();
  if (!known) {
    log_line(known.error().to_string());
    return CUDA_ERROR_UNKNOWN;
  }
  *version = *known;
  return CUDA_SUCCESS;
}

VGPU_EXPORT CUresult cuDeviceGetCount(int* count) {
  return with_driver("cuDeviceGetCount", [&](State& all) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(all.primaries.size());
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return with_driver("cuDeviceGet", [&](State& all) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!all.has(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return about_device("cuDeviceGetName", device, [&](State& all) {
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    // Nobody shall take its figures for a card's.
    const std::string full = std::string(all.machine->gpu.name) + " (virtual)";
    const auto bytes = std::min(full.size(), static_cast<std::size_t>(length) - 1);
    std::memcpy(name, full.data(), bytes);
    name[bytes] = '\0';
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return about_device("cuDeviceGetUuid", device, [&](State& all) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
    const std::string text = "vgpu-" + std::string(all.machine->gpu.id);
    std::memcpy(uuid->bytes, text.data(), std::min(text.size(), sizeof(uuid->bytes) - 1));
    uuid->bytes[sizeof(uuid->bytes) - 1] = static_cast<char>(device);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

VGPU_EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  return about_device("cuDeviceTotalMem", device, [&](State& all) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = all.machine->memory_bytes();
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  return about_device("cuDeviceGetAttribute", device, [&](State& all) {
    const auto known = device_attribute(*all.machine, attribute);
    if (value == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    *value = *known;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return about_device("cuDeviceComputeCapability", device, [&](State& all) {
    if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *major = all.machine->architecture.compute_major;
    *minor = all.machine->architecture.compute_minor;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return about_device("cuDeviceCanAccessPeer", device, [&](State& all) {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!all.has(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = 0;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return about_device("cuDeviceGetPCIBusId", device, [&](State&) {
    char id[] = "0000:01:00.0";
    id[6] = static_cast<char>('1' + device);
    if (text == nullptr || length < static_cast<int>(sizeof(id))) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(text, id, sizeof(id));
    return CUDA_SUCCESS;
  });
}
