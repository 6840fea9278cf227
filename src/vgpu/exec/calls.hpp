// call and ret (PTX ISA 9.7.12.5, .6), and the functions that exec runs itself.
#pragma once

#include <cstdint>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

[[nodiscard]] ir::Handler call_handler(Mode mode);
// ret; in the entry function it is exit.
void return_lanes(Warp& warp, const ir::Inst& inst);

// vprintf, __assertfail, malloc, free for the lanes of warp.exec, with arguments and results in the caller's area.
void run_builtin(Warp& warp, const ir::Inst& call, const ir::Function& function);

}  // namespace flashmoe::vgpu::exec
