#include "vgpu/observe/sanitizer/memcheck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

enum Reason : std::uint32_t { out_of_bounds, misaligned, after_free, constant_write };

bool writes(exec::AccessKind kind) {
  return kind == exec::AccessKind::store || kind == exec::AccessKind::atomic || kind == exec::AccessKind::async_write;
}

std::string verb(const exec::Access& access) {
  const char* const name = access.kind == exec::AccessKind::atomic ? "atomic access"
                           : writes(access.kind)                   ? "write"
                                                                   : "read";
  const bool is_copy = access.kind == exec::AccessKind::async_read || access.kind == exec::AccessKind::async_write;
  return fmt::format("{} of {} bytes{}", name, access.bytes, is_copy ? " by cp.async" : "");
}

// Where the addresses have a pattern, it answers for all lanes.
bool pattern_is_good(const exec::Access& access, std::uint64_t begin, std::uint64_t end, std::uint64_t bytes) {
  const std::uint64_t align_mask = std::has_single_bit(bytes) ? bytes - 1u : 0u;
  return access.pattern != nullptr && access.pattern->lies_in(begin, end, bytes) &&
         (access.pattern->low_bits() & align_mask) == 0;
}

std::string_view space_name(ir::Space space) {
  return space == ir::Space::constant ? "constant" : ir::name_of(space);
}

}  // namespace

void Memcheck::grid_begins(const exec::Grid& grid) {
  grid_ = &grid;
  strays_ = 0;
  const ir::Kernel& kernel = *grid.kernel;
  const std::uint32_t dynamic = grid.launch->dynamic_shared_bytes;
  shared_bytes_ = dynamic > 0 ? std::uint64_t{kernel.dynamic_shared_offset} + dynamic : kernel.static_shared_bytes;
  last_.assign(kernel.code.size(), Range{});
  last_array_.assign(kernel.code.size(), Range{});
  arrays_ = kernel.shared_arrays;
  if (!arrays_.empty()) {
    if (dynamic > 0) arrays_.push_back({"extern", kernel.dynamic_shared_offset + kernel.red_zone_bytes, dynamic});
    shared_bytes_ = arrays_.back().offset + arrays_.back().bytes;
  }
}

std::uint32_t Memcheck::allowed(exec::Warp& warp, const exec::Access& access) {
  const std::uint32_t good = allowed_in_space(warp, access), stray = access.lanes & ~good;
  if (stray == 0) return good;
  strays_ += static_cast<std::uint64_t>(std::popcount(stray));
  if (!has_ended_launch()) return good;
  const int lane = std::countr_zero(stray);
  exec::raise(warp, exec::Fault::Kind::illegal_address,
              fmt::format("more than {} accesses of this launch went where they must not; it ends here", most_strays_),
              lane, access.address[lane]);
  return 0;
}

std::uint32_t Memcheck::allowed_in_space(const exec::Warp& warp, const exec::Access& access) {
  switch (access.space) {
    case ir::Space::global:
    case ir::Space::constant:
    case ir::Space::generic:
      return allowed_global(warp, access);
    case ir::Space::shared:
      return arrays_.size() > 1 ? allowed_arrays(warp, access) : allowed_window(warp, access, shared_bytes_);
    case ir::Space::local: {
      // A callee may follow a pointer into its callers' frames, never behind its own.
      const exec::Frame* frame = warp.frame;
      const std::uint64_t end = frame != nullptr && frame->function != nullptr
                                    ? std::uint64_t{frame->local_offset} + frame->function->local_bytes
                                    : 0;
      return allowed_window(warp, access, end);
    }
    case ir::Space::param:
      return access.lanes;
  }
  return access.lanes;
}

std::uint32_t Memcheck::allowed_global(const exec::Warp& warp, const exec::Access& access) {
  const std::uint64_t align_mask = std::has_single_bit(access.bytes) ? access.bytes - 1u : 0u;
  Range& last = last_[access.pc];
  const bool writes_constant = last.is_constant && writes(access.kind);
  if (!writes_constant && pattern_is_good(access, last.begin, last.end, access.bytes)) return access.lanes;
  std::uint64_t outside = 0, low_bits = 0;
  for_each_lane(access.lanes, [&](int lane) {
    const std::uint64_t address = access.address[lane];
    outside |= static_cast<std::uint64_t>(address < last.begin) |
               static_cast<std::uint64_t>(address + access.bytes > last.end);
    low_bits |= address;
  });
  if (outside == 0 && (low_bits & align_mask) == 0 && !writes_constant) return access.lanes;

  std::uint32_t good = access.lanes;
  for_each_lane(access.lanes, [&](int lane) {
    const std::uint64_t address = access.address[lane];
    if ((address & align_mask) != 0) {
      good &= ~(1u << lane);
      report(
          warp, access, lane, misaligned, fmt::format("misaligned {}", verb(access)),
          fmt::format("The address must be a multiple of {}; check the base pointer and the row pitch.", access.bytes));
      return;
    }
    if (address < last.begin || address + access.bytes > last.end) {
      const auto found = grid_->memory->find(address);
      const bool inside = found && address >= found->address && address + access.bytes <= found->address + found->bytes;
      if (!inside || !found->is_live) {
        good &= ~(1u << lane);
        if (inside) {
          report(warp, access, lane, after_free,
                 fmt::format("{} in {} ({} bytes) after it was freed", verb(access), found->what, found->bytes),
                 "Free the buffer only after the last launch that uses it has been synchronised with.");
          return;
        }
        if (address < 4096) {
          report(warp, access, lane, out_of_bounds, fmt::format("{} outside any allocation", verb(access)),
                 "The pointer is null or was never set; check the kernel's arguments.");
        } else if (const auto near = grid_->memory->nearest(address)) {
          report(warp, access, lane, out_of_bounds,
                 fmt::format("{} {} {} ({} bytes)", verb(access), found ? "across the end of" : near->place(address),
                             near->what, near->bytes),
                 "Guard the access with the real extent, or make the allocation larger.");
        } else {
          report(warp, access, lane, out_of_bounds,
                 fmt::format("{} where no memory of this GPU is (a host pointer?)", verb(access)),
                 "Pass the kernel a pointer of cudaMalloc, cudaMallocManaged or cudaHostGetDevicePointer.");
        }
        return;
      }
      last = {found->address, found->address + found->bytes, found->is_constant};
    }
    if (last.is_constant && writes(access.kind)) {
      good &= ~(1u << lane);
      report(warp, access, lane, constant_write, fmt::format("{} to constant memory", verb(access)),
             "Kernels may only read __constant__ variables; use a __device__ variable or a buffer.");
    }
  });
  return good;
}

std::uint32_t Memcheck::allowed_arrays(const exec::Warp& warp, const exec::Access& access) {
  const std::uint64_t bytes = access.is_matrix ? 16 : access.bytes;
  Range& last = last_array_[access.pc];
  if (pattern_is_good(access, last.begin, last.end, bytes)) return access.lanes;
  std::uint32_t good = allowed_window(warp, access, shared_bytes_);
  for_each_lane(good, [&](int lane) {
    const std::uint64_t address = access.address[lane];
    if (address >= last.begin && address + bytes <= last.end) return;
    auto array = std::upper_bound(arrays_.begin(), arrays_.end(), address,
                                  [](std::uint64_t at, const ir::SharedArray& one) { return at < one.offset; });
    if (array == arrays_.begin()) return;
    --array;
    const std::uint64_t end = std::uint64_t{array->offset} + array->bytes;
    if (address + bytes <= end) {
      last = {array->offset, end, false};
      return;
    }
    good &= ~(1u << lane);
    report(warp, access, lane, out_of_bounds,
           address >= end ? fmt::format("{} {} bytes past the end of {} ({} bytes of shared memory)", verb(access),
                                        address - end, array->name, array->bytes)
                          : fmt::format("{} across the end of {} ({} bytes of shared memory)", verb(access),
                                        array->name, array->bytes),
           "Check the index against the array's extent: what stands behind it is another variable's.");
  });
  return good;
}

std::uint32_t Memcheck::allowed_window(const exec::Warp& warp, const exec::Access& access, std::uint64_t size) {
  const std::uint64_t bytes = access.is_matrix ? 16 : access.bytes;
  if (pattern_is_good(access, 0, size, bytes)) return access.lanes;
  const std::uint64_t align_mask = std::has_single_bit(bytes) ? bytes - 1u : 0u;
  const std::uint64_t last = size - bytes;  // the largest good offset; wraps when there is none
  std::uint64_t outside = last, low_bits = 0;
  for_each_lane(access.lanes, [&](int lane) {
    outside |= access.address[lane] | (last - access.address[lane]);  // the top bit: beyond the end
    low_bits |= access.address[lane];
  });
  if (outside >> 63 == 0 && (low_bits & align_mask) == 0) return access.lanes;

  std::uint32_t good = access.lanes;
  for_each_lane(access.lanes, [&](int lane) {
    const std::uint64_t address = access.address[lane];
    if (address > size || address + bytes > size) {
      good &= ~(1u << lane);
      const std::string_view space = space_name(access.space);
      report(warp, access, lane, out_of_bounds,
             fmt::format("{} outside the {} bytes of {} memory the {} has", verb(access), size, space,
                         access.space == ir::Space::shared ? "block" : "thread"),
             access.space == ir::Space::shared
                 ? "Check the index against the array's extent and the dynamic shared bytes given at launch."
                 : "Check the index against the extent of the local array.");
    } else if ((address & align_mask) != 0) {
      good &= ~(1u << lane);
      report(
          warp, access, lane, misaligned, fmt::format("misaligned {}", verb(access)),
          fmt::format("The address must be a multiple of {}; check the array's alignment and the row pitch.", bytes));
    }
  });
  return good;
}

void Memcheck::report(const exec::Warp& warp, const exec::Access& access, int lane, std::uint32_t reason,
                      std::string message, std::string advice) {
  if (!log_.is_new(Check::memcheck, access.pc, ir::no_slot, reason)) return;
  const std::uint32_t number = warp.id * exec::lanes_per_warp + static_cast<std::uint32_t>(lane);
  Finding finding{.check = Check::memcheck, .kernel = grid_->kernel->name, .message = std::move(message)};
  finding.at = party(*grid_->kernel, access.pc, warp.cta->block, thread_of(grid_->launch->block, number));
  finding.address = access.address[lane];
  finding.space = space_name(access.space);
  finding.is_misaligned = reason == misaligned;
  finding.cause = Cause::access;
  finding.advice = std::move(advice);
  log_.add(std::move(finding));
}

void report_leaks(const memory::DeviceMemory& memory, FindingLog& log) {
  log.next_kernel(nullptr);
  std::uint32_t number = 0;
  for (const memory::Allocation& left : memory.live()) {
    // Module variables and the driver's own areas are not the program's to free.
    if (!left.what.starts_with("cuMem")) continue;
    if (!log.is_new(Check::memcheck, ir::no_slot, ir::no_slot, number++)) continue;
    Finding finding{.check = Check::memcheck,
                    .message = fmt::format("{} bytes of {} were never freed", left.bytes, left.what)};
    finding.address = left.address;
    finding.space = "global";
    finding.advice = "Free the allocation before its context ends.";
    log.add(std::move(finding));
  }
}

}  // namespace flashmoe::vgpu::observe
