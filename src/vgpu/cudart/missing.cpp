// What answers for functions that nobody wrote: programs are bound to all names when they are loaded. Every function of
// the API has a weak definition here; the files that implement one define it strongly, and the linker takes theirs.
#include <string>

#include "vgpu/driver/log.hpp"

namespace {

int unsupported(const char* name) {
  flashmoe::vgpu::driver::log_once(std::string(name) +
                                   " is not implemented by the virtual GPU's runtime: cudaErrorNotSupported");
  return 801;  // cudaErrorNotSupported
}

}  // namespace

// Arguments are left where the caller put them: in this ABI the caller also takes them away again.
#define VGPU_RUNTIME_NAME(name)                                        \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return unsupported(#name);                                         \
  }
#include "vgpu/cudart/names.def"
#undef VGPU_RUNTIME_NAME
