// mov that packs, unpacks (PTX ISA 9.7.9.2) or reads a special register (chapter 10).
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/lanes.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

using ir::Special;

const std::uint32_t* list_of(const Warp& warp, const Inst& inst) {
  return warp.kernel->lists.data() + inst.list;
}

// mov.b64 d, {x, y}: the first element is the least significant.
template <class Whole, class Part>
void pack(Warp& warp, const Inst& inst) {
  constexpr int parts = sizeof(Whole) / sizeof(Part);
  const std::uint32_t* list = list_of(warp, inst);
  const Cell<Part>* part[4] = {};
  for (int i = 0; i < parts; ++i) part[i] = cells<Part>(warp, list[i]);
  [[maybe_unused]] const Cell<Part>*p0 = part[0], *p1 = part[1], *p2 = part[2], *p3 = part[3];
  write_lanes<Whole>(warp, inst.d, [=](int lane) {
    constexpr int bits = 8 * sizeof(Part);
    Whole whole = static_cast<Whole>(p0[lane]) | static_cast<Whole>(p1[lane]) << bits;
    if constexpr (parts == 4) {
      whole |= static_cast<Whole>(p2[lane]) << (2 * bits) | static_cast<Whole>(p3[lane]) << (3 * bits);
    }
    return whole;
  });
}

template <class Whole, class Part>
void unpack(Warp& warp, const Inst& inst) {
  constexpr int parts = sizeof(Whole) / sizeof(Part);
  const std::uint32_t* list = list_of(warp, inst);
  const Cell<Whole>* a = cells<Whole>(warp, inst.a);
  for (int i = 0; i < parts; ++i) {
    if (list[i] == ir::no_slot) continue;
    write_lanes<Part>(warp, list[i], [=](int lane) { return static_cast<Part>(a[lane] >> (8 * sizeof(Part) * i)); });
  }
}

// Lanes are numbered through the block, x fastest.
std::uint64_t thread_index(const Warp& warp, int lane, Special which) {
  const Dim3& block = warp.cta->grid->launch->block;
  const std::uint32_t thread = warp.id * lanes_per_warp + static_cast<std::uint32_t>(lane);
  if (which == Special::tid_x) return thread % block.x;
  if (which == Special::tid_y) return thread / block.x % block.y;
  return thread / block.x / block.y;
}

// The manual promises of the clocks only that they do not run backwards: a warp's clock counts its own instructions.
// What the next launch's must begin behind is kept for it.
std::uint64_t nanoseconds(const Warp& warp) {
  const Launch& launch = *warp.cta->grid->launch;
  const double since_start = static_cast<double>(warp.instructions) * 1000.0 / launch.sm_clock_mhz;
  const std::uint64_t now = launch.start_ns + static_cast<std::uint64_t>(since_start);
  if (launch.latest_ns != nullptr) {
    std::uint64_t latest = launch.latest_ns->load(std::memory_order_relaxed);
    while (latest < now && !launch.latest_ns->compare_exchange_weak(latest, now, std::memory_order_relaxed)) {
    }
  }
  return now;
}

std::uint64_t special_value(const Warp& warp, int lane, Special which) {
  const Cta& cta = *warp.cta;
  const Launch& launch = *cta.grid->launch;
  const std::uint32_t eq = 1u << lane;
  switch (which) {
    case Special::tid_x:
    case Special::tid_y:
    case Special::tid_z:
      return thread_index(warp, lane, which);
    case Special::ntid_x:
      return launch.block.x;
    case Special::ntid_y:
      return launch.block.y;
    case Special::ntid_z:
      return launch.block.z;
    case Special::ctaid_x:
    case Special::clusterid_x:  // a cluster is one CTA
      return cta.block.x;
    case Special::ctaid_y:
    case Special::clusterid_y:
      return cta.block.y;
    case Special::ctaid_z:
    case Special::clusterid_z:
      return cta.block.z;
    case Special::nctaid_x:
    case Special::nclusterid_x:
      return launch.grid.x;
    case Special::nctaid_y:
    case Special::nclusterid_y:
      return launch.grid.y;
    case Special::nctaid_z:
    case Special::nclusterid_z:
      return launch.grid.z;
    case Special::laneid:
      return static_cast<std::uint64_t>(lane);
    case Special::warpid:
      return warp.id;
    case Special::nwarpid:
      return cta.grid->launch->max_warps_per_sm;
    case Special::smid:
      return cta.sm;
    case Special::nsmid:
      return launch.sm_count;
    case Special::gridid:
      return launch.grid_id;
    case Special::lanemask_eq:
      return eq;
    case Special::lanemask_le:
      return eq | (eq - 1);
    case Special::lanemask_lt:
      return eq - 1;
    case Special::lanemask_ge:
      return all_lanes & ~(eq - 1);
    case Special::lanemask_gt:
      return all_lanes & ~(eq | (eq - 1));
    case Special::clock:
    case Special::clock64:
      return warp.instructions;
    case Special::clock_hi:
      return warp.instructions >> 32;
    case Special::globaltimer:
    case Special::globaltimer_lo:
      return nanoseconds(warp);
    case Special::globaltimer_hi:
      return nanoseconds(warp) >> 32;
    case Special::dynamic_smem_size:
      return launch.dynamic_shared_bytes;
    case Special::total_smem_size:
      return cta.shared.size() - warp.kernel->red_zone_bytes;
    case Special::cluster_nctaid_x:
    case Special::cluster_nctaid_y:
    case Special::cluster_nctaid_z:
    case Special::cluster_nctarank:
      return 1;
    case Special::none:
    case Special::cluster_ctaid_x:
    case Special::cluster_ctaid_y:
    case Special::cluster_ctaid_z:
    case Special::cluster_ctarank:
    case Special::is_explicit_cluster:
    case Special::reserved_smem_offset:
    case Special::envreg:  // mov_special() knows which
      return 0;
  }
  return 0;
}

template <class T>
void mov_special(Warp& warp, const Inst& inst) {
  const auto which = static_cast<Special>(inst.special);
  // cooperative_groups finds the grid's barrier through %envreg1 (high half of an address) and %envreg2.
  const bool is_workspace = which == Special::envreg && (inst.imm == 1 || inst.imm == 2);
  const std::uint64_t workspace = warp.cta->grid->launch->grid_workspace >> (inst.imm == 1 ? 32 : 0);
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (bit(warp.exec, lane)) {
      cells<T>(warp, inst.d)[lane] =
          to_cell<T>(static_cast<T>(is_workspace ? workspace : special_value(warp, lane, which)));
    }
  }
}

int bits_of_type(Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 16;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return 64;
    default:
      return 32;
  }
}

}  // namespace

Handler find_move(const Key& key) {
  if (key.op != Op::mov || key.type() == Type::pred || key.type() == Type::b128) return nullptr;
  const int bits = bits_of_type(key.type());
  if (key.reads_special) {
    return bits == 64   ? mov_special<std::uint64_t>
           : bits == 32 ? mov_special<std::uint32_t>
                        : mov_special<std::uint16_t>;
  }
  const bool packs = key.source_count > 1;
  const int count = packs ? key.source_count : key.destination_count;
  if (bits == 32 && count == 2)
    return packs ? pack<std::uint32_t, std::uint16_t> : unpack<std::uint32_t, std::uint16_t>;
  if (bits == 64 && count == 2)
    return packs ? pack<std::uint64_t, std::uint32_t> : unpack<std::uint64_t, std::uint32_t>;
  if (bits == 64 && count == 4)
    return packs ? pack<std::uint64_t, std::uint16_t> : unpack<std::uint64_t, std::uint16_t>;
  return nullptr;
}

}  // namespace flashmoe::vgpu::exec::ops::common
