// What answers for functions that nobody wrote: programs are bound to all names when they are loaded. Every function of
// both libraries has a weak definition here; the files that implement one define it strongly, and the linker takes
// theirs.
#include <string>

#include "vgpu/driver/log.hpp"

namespace {

int unsupported(const char* name) {
  flashmoe::vgpu::driver::log_once(std::string(name) +
                                   " is not implemented by the virtual GPU's cuBLAS: CUBLAS_STATUS_NOT_SUPPORTED");
  return 15;  // CUBLAS_STATUS_NOT_SUPPORTED
}

}  // namespace

// Arguments are left where the caller put them: in this ABI the caller also takes them away again.
#define VGPU_BLAS_NAME(name)                                           \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return unsupported(#name);                                         \
  }
#include "vgpu/cublas/lt_names.def"
#include "vgpu/cublas/names.def"
#undef VGPU_BLAS_NAME
