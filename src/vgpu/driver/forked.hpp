// Contexts, memory and threads stay with the process that made them: in children of fork() every call answers
// CUDA_ERROR_NOT_INITIALIZED once the parent has called cuInit, as NVIDIA's driver does, cuInit too.
#pragma once

namespace flashmoe::vgpu::driver {

// Called by cuInit.
void refuse_in_children();
[[nodiscard]] bool is_refused_child();

}  // namespace flashmoe::vgpu::driver
