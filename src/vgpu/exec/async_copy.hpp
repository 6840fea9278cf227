// cp.async (PTX ISA 9.7.9.25): copies that were issued and land later.
#pragma once

#include <cstdint>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

[[nodiscard]] ir::Handler async_copy_handler(const ir::Form& form, Mode mode);

// All copies of these lanes that were issued so far land now.
void land_copies(Warp& warp, std::uint32_t lanes);
// The warp ends: what is still under way lands, and an observer hears that nobody waited for it.
void finish_copies(Warp& warp);
// A schedule with copies at random: some of those under way land between two slices.
void land_some_copies(Warp& warp);

}  // namespace flashmoe::vgpu::exec
