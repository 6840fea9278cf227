// The groups of memory ops; each answers nullptr for a form that is not its own.
#pragma once

#include "vgpu/exec/handlers.hpp"

namespace flashmoe::vgpu::exec {

[[nodiscard]] ir::Handler load_handler(const ir::Form& form, Mode mode);      // ld ldu
[[nodiscard]] ir::Handler store_handler(const ir::Form& form, Mode mode);     // st
[[nodiscard]] ir::Handler atomic_handler(const ir::Form& form, Mode mode);    // atom red
[[nodiscard]] ir::Handler matrix_handler(const ir::Form& form, Mode mode);    // ldmatrix stmatrix
[[nodiscard]] ir::Handler address_handler(const ir::Form& form);              // cvta isspacep prefetch createpolicy
[[nodiscard]] ir::Handler texture_handler(const ir::Form& form);              // tex suld sust
[[nodiscard]] ir::Handler mbarrier_handler(const ir::Form& form, Mode mode);  // mbarrier, cp.async.mbarrier

}  // namespace flashmoe::vgpu::exec
