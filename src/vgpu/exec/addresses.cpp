#include "vgpu/exec/addresses.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>

#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/standstill.hpp"
#include "vgpu/exec/touched.hpp"

namespace flashmoe::vgpu::exec {

constinit thread_local Touched touched{};

namespace {

alignas(64) constexpr std::uint8_t zeros[64] = {};

// The range that addresses of a space count in: [0, bytes), and where it lies in the host.
struct Range {
  std::uint64_t first = 0;  // the address of its first byte
  std::uint64_t bytes = 0;
  const std::uint8_t* host = nullptr;
  std::uint64_t bytes_per_lane = 0;  // how far apart the lanes' own ranges lie; 0: one for all
};

[[nodiscard]] Range range_of(const Warp& warp, const ir::Inst& inst, ir::Space space) {
  switch (space) {
    case ir::Space::shared:
      return {0, warp.shared_bytes, warp.shared, 0};
    case ir::Space::local:
      return {0, warp.local_bytes_per_lane, warp.local.data(), warp.local_bytes_per_lane};
    case ir::Space::param:
      if (inst.frame_parameter) {
        return {0, warp.frame->area_bytes, warp.frame->parameters, warp.frame->area_bytes};
      } else {
        const std::vector<std::uint8_t>& parameters = warp.cta->grid->launch->parameters;
        return {0, parameters.size(), parameters.data(), 0};
      }
    case ir::Space::global:
    case ir::Space::constant:
    case ir::Space::generic:
      break;
  }
  return {warp.global_base, warp.global_bytes, reinterpret_cast<const std::uint8_t*>(warp.global_base), 0};
}

[[nodiscard]] bool fits(const Range& range, std::uint64_t address, std::uint32_t bytes) {
  const std::uint64_t offset = address - range.first;
  return offset < range.bytes && bytes <= range.bytes - offset;
}

[[nodiscard]] std::uint32_t alignment_of(const Request& request) {
  return request.align != 0 ? request.align : request.bytes;
}

[[nodiscard]] std::string_view verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::load:
    case AccessKind::async_read:
      return "reads";
    case AccessKind::store:
    case AccessKind::async_write:
      return "writes";
    case AccessKind::atomic:
      return "updates";
  }
  return "touches";
}

[[nodiscard]] std::string where(const Warp& warp, ir::Space space, const Range& range, std::uint64_t address) {
  if (space == ir::Space::global || space == ir::Space::constant) {
    return warp.cta->grid->memory->describe(address);
  }
  return fmt::format("{} memory has {} bytes here", ir::name_of(space), range.bytes);
}

// Finds the lane that made the quick check fail and says what is wrong with it.
void raise_bad_lane(Warp& warp, ir::Space space, const Range& range, const Request& request,
                    const std::uint64_t* addresses) {
  for (std::uint32_t left = request.lanes; left != 0; left &= left - 1) {
    const int lane = first_lane(left);
    const std::uint64_t address = addresses[lane];
    if (!fits(range, address, request.bytes)) {
      raise(warp, Fault::Kind::illegal_address,
            fmt::format("{} {} bytes of {} memory at {:#x}, outside of it: {}", verb(request.kind), request.bytes,
                        ir::name_of(space), address, where(warp, space, range, address)),
            lane, address);
      return;
    }
    if (address % alignment_of(request) != 0) {
      raise(warp, Fault::Kind::misaligned_address,
            fmt::format("{} {} bytes of {} memory at {:#x}, which is not a multiple of {}: {}", verb(request.kind),
                        request.bytes, ir::name_of(space), address, alignment_of(request),
                        where(warp, space, range, address)),
            lane, address);
      return;
    }
  }
}

// True: every lane is aligned and inside the range. One pass of additions and ORs that compilers turn into SIMD.
[[nodiscard]] bool is_clean(const Range& range, const Request& request, const std::uint64_t* addresses) {
  if (request.lanes == 0) {
    return true;
  }
  const std::uint64_t last = range.bytes - request.bytes;  // the largest good offset; wraps when there is none
  std::uint64_t outside = last, misaligned = 0;
  const auto look = [&](int lane) {
    const std::uint64_t offset = addresses[lane] - range.first;
    outside |= offset | (last - offset);  // the top bit: negative, or beyond the end
    misaligned |= addresses[lane];
  };
  for_each_lane(request.lanes, look);
  return (outside >> 63) == 0 && (misaligned & (alignment_of(request) - 1)) == 0;
}

[[nodiscard]] std::uint32_t ask_observer(Warp& warp, const ir::Inst& inst, ir::Space space, const Request& request,
                                         const std::uint64_t* addresses) {
  Grid& grid = *warp.cta->grid;
  if (grid.observer == nullptr) {
    return request.lanes;
  }
  Access access{};
  access.space = space == ir::Space::constant ? ir::Space::global : space;
  access.kind = request.kind;
  access.lanes = request.lanes;
  access.address = addresses;
  access.bytes = request.bytes;
  access.is_matrix = request.is_matrix;
  access.copies = request.copies;
  access.pc = request.copies.empty() ? warp.pc - 1 : request.copies.front().pc;
  if (access.pc < grid.traits.size()) {
    const AccessTraits& traits = grid.traits[access.pc];
    access.order = static_cast<Order>(traits.order);
    access.scope = static_cast<Scope>(traits.scope);
    access.is_volatile = traits.is_volatile;
  }
  const bool reads = access.kind == AccessKind::load || access.kind == AccessKind::atomic;
  if (reads && access.space != ir::Space::param) {
    Repetition& seen = warp.repetition;
    seen.read_pc = access.pc;
    seen.read_space = access.space;
    seen.read_address = addresses[first_lane(access.lanes)];
  }
  return grid.observer->access(warp, inst, access);
}

[[nodiscard]] bool may_write(Warp& warp, const ir::Inst& inst, ir::Space space, const Request& request) {
  if (space == ir::Space::param && !inst.frame_parameter && request.kind != AccessKind::load) {
    raise(warp, Fault::Kind::illegal_address, "writes to a kernel parameter, which is read-only",
          first_lane(request.lanes));
    return false;
  }
  return true;
}

[[nodiscard]] memory::Footprint::Use use_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::load:
    case AccessKind::async_read:
      return memory::Footprint::Use::read;
    case AccessKind::store:
    case AccessKind::async_write:
      return memory::Footprint::Use::write;
    case AccessKind::atomic:
      break;
  }
  return memory::Footprint::Use::update;
}

// What the launch touches of device memory, a part of its time. Nearly every access is one piece, or one place: a look
// at lanes 1, 16 and 31 settles that. Elsewhere one lane in four is asked (of wide accesses more): that misses no
// sector where neighbours lie side by side, and what is scattered counts for no fewer bytes than its lanes want.
[[gnu::noinline]] void note_touched(const Warp& warp, AccessKind kind, std::uint32_t lanes, std::uint32_t bytes,
                                    const Targets& targets) {
  using memory::Footprint;
  if (warp.cta->grid->observer != nullptr && touched.footprint == nullptr) return;
  const auto look = [kind](std::uint64_t line, std::uint32_t sectors) {
    if (!Footprint::is_sampled(line)) return;
    Touched& count = touched;
    if (count.footprint != nullptr) count.dram_sectors += count.footprint->touch(line, sectors, use_of(kind));
  };
  const std::uint64_t* const host = targets.host;
  const std::uint64_t stride = host[1] - host[0];
  if (lanes == all_lanes && (stride == bytes || stride == 0) && host[16] - host[0] == 16 * stride &&
      host[31] - host[0] == 31 * stride) {
    Footprint::for_each_line(host[0] - warp.global_base, 31 * stride + bytes, look);
    return;
  }
  const bool asks_all = std::popcount(lanes) <= 8 || bytes >= 32;
  std::uint64_t line = 0;
  std::uint32_t sectors = 0;
  for (std::uint32_t left = asks_all ? lanes : lanes & (bytes == 16 ? 0x55555555u : 0x11111111u); left != 0;
       left &= left - 1) {  // neighbours in one line are one look
    const std::uint64_t offset = host[first_lane(left)] - warp.global_base;
    if (offset / Footprint::line_bytes != line) {
      if (sectors != 0) look(line, sectors);
      line = offset / Footprint::line_bytes;
      sectors = 0;
    }
    // Aligned accesses of at most 32 bytes: one sector.
    sectors |= 1u << offset % Footprint::line_bytes / Footprint::sector_bytes;
  }
  if (sectors != 0) look(line, sectors);
}

}  // namespace

void operand_addresses(const Warp& warp, std::uint32_t slot, bool wide, std::int64_t offset, std::uint64_t* addresses) {
  const auto add = static_cast<std::uint64_t>(offset);
  if (slot == ir::no_slot) {
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      addresses[lane] = add;
    }
  } else if (wide) {
    const std::uint64_t* const base = warp.lanes<std::uint64_t>(slot);
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      addresses[lane] = base[lane] + add;
    }
  } else {
    const std::uint32_t* const base = warp.slot(slot);
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      addresses[lane] = static_cast<std::uint32_t>(base[lane] + static_cast<std::uint32_t>(add));
    }
  }
}

template <Mode mode>
std::uint32_t resolve_in(Warp& warp, const ir::Inst& inst, ir::Space space, const Request& asked,
                         const std::uint64_t* addresses, Targets& targets) {
  Request request = asked;
  if (request.lanes == 0 || !may_write(warp, inst, space, request)) {
    return 0;
  }
  if constexpr (mode == Mode::observed) {
    request.lanes = ask_observer(warp, inst, space, request, addresses) & asked.lanes;
  }
  Range range = range_of(warp, inst, space);
  if (!is_clean(range, request, addresses)) {
    // Device malloc may have grown the mapped range since the warp looked.
    warp.global_bytes = warp.cta->grid->memory->mapped_bytes();
    range = range_of(warp, inst, space);
    if (!is_clean(range, request, addresses)) {
      raise_bad_lane(warp, space, range, request, addresses);
      return 0;
    }
  }
  const std::uint64_t move = reinterpret_cast<std::uint64_t>(range.host) - range.first;
  if (range.bytes_per_lane == 0) {
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      targets.host[lane] = addresses[lane] + move;
    }
  } else {
    for (std::uint32_t lane = 0; lane < lanes_per_warp; ++lane) {
      targets.host[lane] = addresses[lane] + move + lane * range.bytes_per_lane;
    }
  }
  if (space == ir::Space::global && request.lanes != 0) {
    note_touched(warp, request.kind, request.lanes, request.bytes, targets);
  }
  if constexpr (mode == Mode::observed) {
    if (request.kind != AccessKind::load && request.kind != AccessKind::async_read) {
      about_to_write(*warp.cta->grid, request, targets);
    }
    const std::uint32_t refused = asked.lanes & ~request.lanes;
    if (refused != 0 && request.kind == AccessKind::load) {
      for_each_lane(refused, [&](int lane) { targets.host[lane] = reinterpret_cast<std::uint64_t>(zeros); });
      return asked.lanes;
    }
  }
  return request.lanes;
}

namespace {

// Generic addresses are sorted into spaces by their window, then each space is a request of its own.
template <Mode mode>
[[nodiscard]] std::uint32_t resolve_generic(Warp& warp, const ir::Inst& inst, const Request& request,
                                            std::uint64_t* addresses, Targets& targets) {
  std::uint64_t windows = 0;
  for_each_lane(request.lanes, [&](int lane) { windows |= addresses[lane]; });
  if ((windows >> 56) == 0) {
    return resolve_in<mode>(warp, inst, ir::Space::global, request, addresses, targets);
  }
  struct Window {
    std::uint64_t first;
    ir::Space space;
  };
  constexpr Window windows_of[] = {{0, ir::Space::global},
                                   {memory::shared_window, ir::Space::shared},
                                   {memory::local_window, ir::Space::local},
                                   {memory::parameter_window, ir::Space::param}};
  std::uint32_t done = 0, left = request.lanes;
  for (const Window& window : windows_of) {
    Request part = request;
    part.lanes = 0;
    std::uint64_t offsets[lanes_per_warp] = {};
    for_each_lane(left, [&](int lane) {
      if (addresses[lane] >> 56 == window.first >> 56) {
        part.lanes |= 1u << lane;
        offsets[lane] = addresses[lane] - window.first;
      }
    });
    if (part.lanes == 0) {
      continue;
    }
    left &= ~part.lanes;
    Targets found{};
    const std::uint32_t resolved = resolve_in<mode>(warp, inst, window.space, part, offsets, found);
    if (resolved == 0 && warp.leave) {
      return 0;
    }
    done |= resolved;
    for_each_lane(resolved, [&](int lane) { targets.host[lane] = found.host[lane]; });
  }
  if (left != 0) {  // no window at all: the message of global memory fits
    Request part = request;
    part.lanes = left;
    return resolve_in<mode>(warp, inst, ir::Space::global, part, addresses, targets);
  }
  return done;
}

}  // namespace

namespace {

// All 32 lanes at once, address, check and host address in one pass; false: something needs a closer look. Nearly every
// access of a fast run ends here.
template <class Address>
[[nodiscard]] bool resolve_whole_warp(const Warp& warp, const ir::Inst& inst, const Range& range, Targets& targets) {
  const Address* const base = warp.lanes<Address>(inst.a);
  const auto add = static_cast<Address>(inst.imm);
  const std::uint64_t last = range.bytes - inst.size;
  const std::uint64_t host = reinterpret_cast<std::uint64_t>(range.host);
  std::uint64_t outside = last, misaligned = 0;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    const std::uint64_t address = static_cast<Address>(base[lane] + add);
    const std::uint64_t offset = address - range.first;
    outside |= offset | (last - offset);
    misaligned |= address;
    targets.host[lane] = offset + host;
  }
  return (outside >> 63) == 0 && (misaligned & (inst.size - 1u)) == 0;
}

}  // namespace

template <Mode mode, ir::Space space>
std::uint32_t resolve(Warp& warp, const ir::Inst& inst, AccessKind kind, Targets& targets) {
  if constexpr (mode == Mode::fast && (space == ir::Space::global || space == ir::Space::shared)) {
    if (warp.exec == all_lanes && inst.a != ir::no_slot) {
      const Range range = range_of(warp, inst, space);
      if (inst.wide_address ? resolve_whole_warp<std::uint64_t>(warp, inst, range, targets)
                            : resolve_whole_warp<std::uint32_t>(warp, inst, range, targets)) {
        if constexpr (space == ir::Space::global) {
          note_touched(warp, kind, all_lanes, inst.size, targets);
        }
        return all_lanes;
      }
    }
  }
  std::uint64_t addresses[lanes_per_warp];
  std::int64_t offset = inst.imm;
  if constexpr (space == ir::Space::local) {
    offset += inst.a == ir::no_slot ? warp.frame->local_offset : 0;
  }
  operand_addresses(warp, inst.a, inst.wide_address, offset, addresses);
  const Request request{warp.exec, inst.size, kind, false, {}, 0};
  if constexpr (space == ir::Space::generic) {
    return resolve_generic<mode>(warp, inst, request, addresses, targets);
  } else {
    return resolve_in<mode>(warp, inst, space, request, addresses, targets);
  }
}

#define FLASHMOE_RESOLVE(mode)                                                                                     \
  template std::uint32_t resolve<mode, ir::Space::generic>(Warp&, const ir::Inst&, AccessKind, Targets&);          \
  template std::uint32_t resolve<mode, ir::Space::global>(Warp&, const ir::Inst&, AccessKind, Targets&);           \
  template std::uint32_t resolve<mode, ir::Space::shared>(Warp&, const ir::Inst&, AccessKind, Targets&);           \
  template std::uint32_t resolve<mode, ir::Space::local>(Warp&, const ir::Inst&, AccessKind, Targets&);            \
  template std::uint32_t resolve<mode, ir::Space::param>(Warp&, const ir::Inst&, AccessKind, Targets&);            \
  template std::uint32_t resolve<mode, ir::Space::constant>(Warp&, const ir::Inst&, AccessKind, Targets&);         \
  template std::uint32_t resolve_in<mode>(Warp&, const ir::Inst&, ir::Space, const Request&, const std::uint64_t*, \
                                          Targets&);
FLASHMOE_RESOLVE(Mode::fast)
FLASHMOE_RESOLVE(Mode::observed)
#undef FLASHMOE_RESOLVE

}  // namespace flashmoe::vgpu::exec
