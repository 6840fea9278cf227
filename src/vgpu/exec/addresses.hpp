// From the address operand of a memory instruction to host addresses, checked. In a fast run the check is one pass over
// the lanes: aligned, and inside what is mapped. In an observed run the observer is asked first.
#pragma once

#include <cstdint>
#include <span>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

struct Targets {
  std::uint64_t host[lanes_per_warp];  // of every lane in the mask that resolve() returned
};

// The lanes of warp.exec whose access is carried out; none when a fault was raised. Lanes that the observer refuses
// read from a place that holds zero, and are not in the mask for anything else but a load.
template <Mode mode, ir::Space space>
[[nodiscard]] std::uint32_t resolve(Warp& warp, const ir::Inst& inst, AccessKind kind, Targets& targets);

// The same for addresses that were computed before, `bytes` for each lane. `matrix`: rows of ldmatrix and stmatrix.
struct Request {
  std::uint32_t lanes = 0;
  std::uint32_t bytes = 0;
  AccessKind kind = AccessKind::load;
  bool is_matrix = false;
  std::span<const AsyncCopy> copies{};  // that land now
  std::uint32_t align = 0;              // 0: as large as the access
};
template <Mode mode>
[[nodiscard]] std::uint32_t resolve_in(Warp& warp, const ir::Inst& inst, ir::Space space, const Request& request,
                                       const std::uint64_t* addresses, Targets& targets);

// Address operand + immediate of every lane, active or not; 32-bit addresses wrap at 32 bits.
void operand_addresses(const Warp& warp, std::uint32_t slot, bool wide, std::int64_t offset, std::uint64_t* addresses);

}  // namespace flashmoe::vgpu::exec
