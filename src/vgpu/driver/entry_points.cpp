// Finding functions by name, and what answers for those that nobody wrote. Every function of the API has a weak
// definition here, under the name that implementations.hpp gives it; the files that implement one define it strongly,
// and the linker takes theirs.
#include <cstdint>
#include <cstring>
#include <string>

#include "vgpu/driver/entry_points.hpp"
#include "vgpu/driver/host_work.hpp"
#include "vgpu/driver/launch_time.hpp"
#include "vgpu/driver/log.hpp"

namespace flashmoe::vgpu::driver {
namespace {

constexpr int not_supported = 801;  // CUDA_ERROR_NOT_SUPPORTED
constexpr int not_found = 500;      // CUDA_ERROR_NOT_FOUND
constexpr int invalid_value = 1;    // CUDA_ERROR_INVALID_VALUE

int unsupported(const char* name) {
  log_once(std::string(name) + " is not implemented by the virtual GPU: CUDA_ERROR_NOT_SUPPORTED");
  return not_supported;
}

}  // namespace
}  // namespace flashmoe::vgpu::driver

// Arguments are left where the caller put them: in this ABI the caller also takes them away again.
#define VGPU_SYMBOL(name, version, stream, symbol)            \
  extern "C" __attribute__((weak)) int vgpu_does_##symbol() { \
    return flashmoe::vgpu::driver::unsupported(#symbol);      \
  }                                                           \
  extern "C" __attribute__((visibility("default"))) int symbol();  // in gate.cpp
#include "vgpu/driver/symbols.def"
#undef VGPU_SYMBOL

namespace flashmoe::vgpu::driver {
namespace {

enum class DefaultStream : std::uint8_t { legacy, per_thread };

struct Symbol {
  const char* name;
  int version;
  DefaultStream stream;
  const char* exported;
  int (*function)();     // as everybody calls it
  int (*implemented)();  // behind the gate
};

constexpr Symbol symbols[] = {
#define VGPU_SYMBOL(name, version, stream, symbol) \
  {#name, version, DefaultStream::stream, #symbol, &symbol, &vgpu_does_##symbol},
#include "vgpu/driver/symbols.def"
#undef VGPU_SYMBOL
};

}  // namespace

EntryPoint entry_point(unsigned row) {
  return {symbols[row].exported, reinterpret_cast<void*>(symbols[row].implemented)};
}

int find_entry_point(const char* asked, void** function, int cuda_version, std::uint64_t flags, int* status) {
  if (asked == nullptr || function == nullptr) return invalid_value;
  *function = nullptr;
  const bool per_thread = (flags & 2U) != 0;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
  const Symbol* best = nullptr;
  bool known = false;
  for (const Symbol& one : symbols) {
    if (std::strcmp(one.name, asked) != 0 && std::strcmp(one.exported, asked) != 0) continue;
    known = true;
    if (one.version > cuda_version || (one.stream == DefaultStream::per_thread && !per_thread)) continue;
    // Newer is better; at the same age the variant for the asked default stream is.
    const bool better = best == nullptr || one.version > best->version ||
                        (one.stream == DefaultStream::per_thread && best->stream == DefaultStream::legacy);
    if (better) best = &one;
  }
  if (status != nullptr) *status = best != nullptr ? 0 : known ? 2 : 1;  // CUdriverProcAddressQueryResult
  if (best == nullptr) {
    // Not CUDA's: how a predictor of times is put in place of the lower bound, and work that the CPU does.
    if (std::strcmp(asked, "vgpuSetLaunchTime") == 0) *function = reinterpret_cast<void*>(&set_launch_time);
    if (std::strcmp(asked, "vgpuHostWork") == 0) *function = reinterpret_cast<void*>(&host_work);
    if (*function != nullptr) return 0;
    log_call(std::string("cuGetProcAddress: no ") + asked);
    return not_found;
  }
  *function = reinterpret_cast<void*>(best->function);
  return 0;
}

}  // namespace flashmoe::vgpu::driver
