#include "vgpu/exec/handlers.hpp"

namespace flashmoe::vgpu::exec {

ir::Handler handler(const ir::Form& form, Mode mode) {
  if (const ir::Handler found = arithmetic_handler(form)) return found;
  if (const ir::Handler found = memory_handler(form, mode)) return found;
  return control_handler(form, mode);
}

}  // namespace flashmoe::vgpu::exec
