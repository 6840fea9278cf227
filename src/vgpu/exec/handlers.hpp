// The function of each op. Arithmetic is compiled once per instruction set of the host, memory and control once for
// fast and once for observed runs: the same definitions, never two implementations.
#pragma once

#include <vector>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::exec {

enum class Mode { fast, observed };

// nullptr: no such op. Chosen by what the host can do; VGPU_ISA=baseline|avx2|avx512 forces one (a test does).
[[nodiscard]] ir::Handler handler(const ir::Form& form, Mode mode);

// The kernel's code as runs of the other mode execute it.
[[nodiscard]] std::vector<ir::Inst> code_for(const ir::Kernel& kernel, Mode mode);

// The groups behind it; each answers nullptr for a form that is not its own.
[[nodiscard]] ir::Handler arithmetic_handler(const ir::Form& form);  // ops/: registers to registers
[[nodiscard]] ir::Handler memory_handler(const ir::Form& form,
                                         Mode mode);  // memory_ops: ld st atom red cp.async ldmatrix prefetch cvta
[[nodiscard]] ir::Handler control_handler(const ir::Form& form,
                                          Mode mode);  // bra call ret exit trap bar barrier membar fence reconverge

}  // namespace flashmoe::vgpu::exec
