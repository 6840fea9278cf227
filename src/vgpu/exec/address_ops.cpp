// cvta and isspacep (PTX ISA 9.7.9.19, .20): between generic addresses and state spaces, by window. Hints to caches do
// nothing here.
#include <cstdint>

#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/memory_parts.hpp"

namespace flashmoe::vgpu::exec {

namespace {

using ir::Space;

constexpr std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
      return memory::shared_window;
    case Space::local:
      return memory::local_window;
    case Space::param:
      return memory::parameter_window;
    default:
      return 0;
  }
}

template <std::uint64_t add>
void shift_address(Warp& warp, const ir::Inst& inst) {
  std::uint64_t* const to = warp.lanes<std::uint64_t>(inst.d);
  if (inst.a == ir::no_slot) {
    for_each_lane(warp.exec, [&](int lane) { to[lane] = static_cast<std::uint64_t>(inst.imm) + add; });
    return;
  }
  const std::uint64_t* const from = warp.lanes<std::uint64_t>(inst.a);
  for_each_lane(warp.exec, [&](int lane) { to[lane] = from[lane] + static_cast<std::uint64_t>(inst.imm) + add; });
}

template <Space space>
void is_in_space(Warp& warp, const ir::Inst& inst) {
  const std::uint64_t* const from = warp.lanes<std::uint64_t>(inst.a);
  std::uint32_t inside = 0;
  for_each_lane(warp.exec, [&](int lane) {
    const std::uint64_t address = from[lane];
    bool is_inside = space == Space::global ? address - warp.global_base < warp.global_bytes
                                            : address >> 56 == window_of(space) >> 56;
    if constexpr (space == Space::constant) {  // .const variables lie in allocations of their own, beside global memory
      const auto allocation = warp.cta->grid->memory->find(address);
      is_inside = allocation && allocation->is_constant;
    }
    inside |= is_inside ? 1u << lane : 0;
  });
  std::uint32_t& predicate = warp.predicates[inst.d];
  predicate = (predicate & ~warp.exec) | inside;
}

void do_nothing(Warp&, const ir::Inst&) {}

void make_policy(Warp& warp, const ir::Inst& inst) {
  std::uint64_t* const to = warp.lanes<std::uint64_t>(inst.d);
  for_each_lane(warp.exec, [&](int lane) { to[lane] = 0; });
}

ir::Handler cvta(const ir::Form& form) {
  const bool to_space = form.has("to");
  switch (form.space) {
    case Space::shared:
      return to_space ? &shift_address<0 - memory::shared_window> : &shift_address<memory::shared_window>;
    case Space::local:
      return to_space ? &shift_address<0 - memory::local_window> : &shift_address<memory::local_window>;
    case Space::param:
      return to_space ? &shift_address<0 - memory::parameter_window> : &shift_address<memory::parameter_window>;
    case Space::global:
    case Space::constant:
      return &shift_address<0>;
    case Space::generic:
      break;
  }
  return nullptr;
}

ir::Handler isspacep(const ir::Form& form) {
  switch (form.space) {
    case Space::shared:
      return &is_in_space<Space::shared>;
    case Space::local:
      return &is_in_space<Space::local>;
    case Space::param:
      return &is_in_space<Space::param>;
    case Space::global:
      return &is_in_space<Space::global>;
    case Space::constant:
      return &is_in_space<Space::constant>;
    case Space::generic:
      break;
  }
  return nullptr;
}

}  // namespace

ir::Handler address_handler(const ir::Form& form) {
  if (form.opcode == "cvta") {
    return form.last_type() == ir::Type::u64 ? cvta(form) : nullptr;
  }
  if (form.opcode == "isspacep") {
    return isspacep(form);
  }
  if (form.opcode == "prefetch" || form.opcode == "prefetchu" || form.opcode == "applypriority" ||
      form.opcode == "discard") {
    return &do_nothing;
  }
  return form.opcode == "createpolicy" ? &make_policy : nullptr;
}

}  // namespace flashmoe::vgpu::exec
