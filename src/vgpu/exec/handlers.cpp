#include "vgpu/exec/handlers.hpp"

namespace flashmoe::vgpu::exec {

ir::Handler handler(const ir::Form& form, Mode mode) {
  if (const ir::Handler found = arithmetic_handler(form)) return found;
  if (const ir::Handler found = memory_handler(form, mode)) return found;
  return control_handler(form, mode);
}

std::vector<ir::Inst> code_for(const ir::Kernel& kernel, Mode mode) {
  std::vector<ir::Inst> code = kernel.code;
  for (std::size_t pc = 0; pc < code.size(); ++pc) code[pc].run = handler(kernel.info[pc].form, mode);
  return code;
}

}  // namespace flashmoe::vgpu::exec
