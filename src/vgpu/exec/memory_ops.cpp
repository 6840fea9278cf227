// Which function runs a memory form.
#include "vgpu/exec/async_copy.hpp"
#include "vgpu/exec/memory_parts.hpp"

namespace flashmoe::vgpu::exec {

ir::Handler memory_handler(const ir::Form& form, Mode mode) {
  if (form.opcode == "ld" || form.opcode == "ldu") {
    return load_handler(form, mode);
  }
  if (form.opcode == "st") {
    return store_handler(form, mode);
  }
  if (form.opcode == "atom" || form.opcode == "red") {
    return atomic_handler(form, mode);
  }
  if (form.opcode == "ldmatrix" || form.opcode == "stmatrix") {
    return matrix_handler(form, mode);
  }
  if (const ir::Handler copies = async_copy_handler(form, mode)) {
    return copies;
  }
  if (const ir::Handler barriers = mbarrier_handler(form, mode)) {
    return barriers;
  }
  if (const ir::Handler textures = texture_handler(form)) {
    return textures;
  }
  return address_handler(form);
}

}  // namespace flashmoe::vgpu::exec
