// Undefined bits on their way between registers and memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/sanitizer/initcheck.hpp"

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::size_t most_bytes = 32;  // a lane moves at once

std::uint32_t element_slot(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t single, std::size_t i) {
  return inst.list != ir::no_slot ? warp.kernel->lists[inst.list + i] : single;
}

bool all_zero(const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t any = 0, word = 0;
  for (; count >= sizeof word; bytes += sizeof word, count -= sizeof word) {
    std::memcpy(&word, bytes, sizeof word);
    any |= word;
  }
  for (std::size_t i = 0; i < count; ++i) any |= bytes[i];
  return any == 0;
}

// What lies between lanes is looked at with them, as long as it is not much more.
constexpr std::uint64_t most_at_once = 1024;

// Whether everything the lanes read is defined: what nearly every load finds, so it is asked first.
bool shared_is_defined(const exec::Access& access, const std::vector<std::uint8_t>& undefined) {
  if (access.pattern != nullptr) {
    const std::uint64_t low = access.pattern->lowest(), bytes = access.pattern->span() + access.bytes;
    if (bytes <= most_at_once && low + bytes <= undefined.size() && all_zero(undefined.data() + low, bytes))
      return true;
  }
  const auto any = [&]<class Word>(Word, std::size_t words) {
    Word sum = 0;
    for_each_lane(access.lanes, [&](int lane) {
      for (std::size_t i = 0; i < words; ++i) {
        Word word = 0;
        std::memcpy(&word, undefined.data() + access.address[lane] + i * sizeof(Word), sizeof(Word));
        sum = static_cast<Word>(sum | word);
      }
    });
    return sum != 0;
  };
  std::uint64_t last = 0;
  for_each_lane(access.lanes, [&](int lane) { last = std::max(last, access.address[lane]); });
  if (last + access.bytes > undefined.size()) return false;
  switch (access.bytes) {
    case 4:
      return !any(std::uint32_t{}, 1);
    case 8:
      return !any(std::uint64_t{}, 1);
    case 16:
      return !any(std::uint64_t{}, 2);
    default:
      return !any(std::uint8_t{}, access.bytes);
  }
}

}  // namespace

std::uint8_t* Initcheck::memory(const exec::Access& access, int lane, const exec::Warp& warp, WarpPoison& poison,
                                CtaPoison& cta) {
  const std::uint64_t offset = access.address[lane];
  const std::uint64_t bytes = access.is_matrix ? 16 : access.bytes;
  if (access.space == ir::Space::shared) {
    return offset + bytes <= cta.shared.size() ? cta.shared.data() + offset : nullptr;
  }
  if (access.space != ir::Space::local) return nullptr;
  const std::size_t wanted = warp.local_bytes_per_lane;
  if (wanted > poison.local_stride) {
    std::vector<std::uint8_t> grown(wanted * 32, 0xff);
    for (std::size_t l = 0; l < 32 && poison.local_stride > 0; ++l) {
      std::memcpy(grown.data() + l * wanted, poison.local.data() + l * poison.local_stride, poison.local_stride);
    }
    poison.local = std::move(grown);
    poison.local_stride = wanted;
  }
  if (offset + bytes > poison.local_stride) return nullptr;
  return poison.local.data() + static_cast<std::size_t>(lane) * poison.local_stride + offset;
}

void Initcheck::access(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, WarpPoison& of_warp,
                       CtaPoison& cta) {
  if (!access.copies.empty()) {
    if (access.kind == exec::AccessKind::async_write) land(access, cta);
    return;
  }
  if (access.space == ir::Space::param || access.space == ir::Space::constant) return;
  RegisterPoison& poison = registers(warp, of_warp);
  if (access.is_matrix) return matrix_rows(warp, inst, access, poison, cta);
  if (steps_[access.pc].is_opaque) return use_barrier_object(warp, access, of_warp, cta);
  switch (access.kind) {
    case exec::AccessKind::load:
      return load(warp, inst, access, poison, of_warp, cta);
    case exec::AccessKind::store:
      return store(warp, inst, access, poison, of_warp, cta);
    case exec::AccessKind::atomic:
      return atomic(warp, inst, access, poison, cta);
    case exec::AccessKind::async_read:
    case exec::AccessKind::async_write:
      return;
  }
}

// The object is opaque: init defines it, inval ends that, everything else counts on it.
void Initcheck::use_barrier_object(const exec::Warp& warp, const exec::Access& access, WarpPoison& of_warp,
                                   CtaPoison& cta) {
  const bool ends = kernel_->info[access.pc].form.has("inval");
  for_each_lane(access.lanes, [&](int lane) {
    std::uint8_t* const object = memory(access, lane, warp, of_warp, cta);
    if (object == nullptr) return;
    if (access.kind != exec::AccessKind::store && !all_zero(object, access.bytes)) {
      report(warp, access.pc, lane, barrier_object, ir::no_slot, &access.address[lane], access.space);
    }
    std::memset(object, ends ? 0xff : 0, access.bytes);
  });
}

void Initcheck::load(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
                     WarpPoison& of_warp, CtaPoison& cta) {
  if (access.space == ir::Space::global) {
    if (global_ == nullptr) return;
    std::uint64_t low = ~std::uint64_t{0}, high = 0;
    if (access.pattern != nullptr) {
      low = access.pattern->lowest();
      high = low + access.pattern->span() + access.bytes;
    } else {
      for_each_lane(access.lanes, [&](int lane) {
        low = std::min(low, access.address[lane]);
        high = std::max(high, access.address[lane] + access.bytes);
      });
    }
    if (high - low <= 8192 && global_->is_initialised(low, high - low)) return;
  } else if (access.space == ir::Space::shared && shared_is_defined(access, cta.shared)) {
    return;
  }
  const ir::Form& form = kernel_->info[access.pc].form;
  const ir::Type type = form.last_type();
  const auto count = static_cast<std::size_t>(form.vector);
  const std::size_t size = access.bytes / count;
  if (size == 0 || size > 8) return;
  for_each_lane(access.lanes, [&](int lane) {
    std::array<std::uint8_t, most_bytes> bytes{};
    if (access.space == ir::Space::global) {
      const std::uint32_t defined = global_->initialised_bytes(access.address[lane], access.bytes);
      for (std::size_t i = 0; i < access.bytes; ++i) bytes[i] = (defined >> i & 1) != 0 ? 0 : 0xff;
    } else if (const std::uint8_t* const from = memory(access, lane, warp, of_warp, cta)) {
      std::memcpy(bytes.data(), from, access.bytes);
    }
    if (all_zero(bytes.data(), access.bytes)) return;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t element = 0;
      std::memcpy(&element, bytes.data() + i * size, size);
      const std::uint64_t extended = poison_extended(element, static_cast<int>(size * 8), ir::is_signed(type));
      const std::uint32_t slot = element_slot(warp, inst, inst.d, i);
      if (slot == ir::no_slot) continue;
      if (form.destination_bits == 64) {
        poison.set_wide(slot, lane, extended, access.pc);
      } else {
        poison.set(slot, lane, static_cast<std::uint32_t>(extended), access.pc);
      }
    }
  });
}

void Initcheck::store(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
                      WarpPoison& of_warp, CtaPoison& cta) {
  const ir::Form& form = kernel_->info[access.pc].form;
  const auto count = static_cast<std::size_t>(form.vector);
  const std::size_t size = access.bytes / count;
  if (size == 0 || size > 8) return;
  const bool wide = form.source_bits == 64 || size == 8;
  std::uint32_t dirty = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t slot = element_slot(warp, inst, inst.b, i);
    if (slot == ir::no_slot) continue;
    dirty |= poison.lanes(slot) | (wide ? poison.lanes(slot + 1) : 0);
  }
  if (dirty == 0 && access.pattern != nullptr && access.pattern->is_row(access.bytes)) {
    const std::uint64_t begin = access.address[0], row = std::uint64_t{exec::lanes_per_warp} * access.bytes;
    if (access.space == ir::Space::shared && begin + row <= cta.shared.size()) {
      std::memset(cta.shared.data() + begin, 0, row);
      return;
    }
    if (access.space == ir::Space::global) {
      if (global_ != nullptr) global_->mark_initialised(begin, row);
      return;
    }
  }
  for_each_lane(access.lanes, [&](int lane) {
    std::array<std::uint8_t, most_bytes> bytes{};
    std::uint32_t origin = ir::no_slot;
    if ((dirty >> lane & 1) != 0) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t slot = element_slot(warp, inst, inst.b, i);
        if (slot == ir::no_slot) continue;
        const std::uint64_t bits = wide ? poison.wide_bits(slot, lane) : poison.bits(slot, lane);
        if (bits != 0) origin = poison.origin(slot);
        std::memcpy(bytes.data() + i * size, &bits, size);
      }
    }
    if (access.space != ir::Space::global) {
      if (std::uint8_t* const to = memory(access, lane, warp, of_warp, cta))
        std::memcpy(to, bytes.data(), access.bytes);
      return;
    }
    if (!all_zero(bytes.data(), access.bytes)) {
      report(warp, access.pc, lane, global_store, origin, &access.address[lane], access.space);
    }
    // Reported here once; who reads it later is not to blame.
    if (global_ != nullptr) global_->mark_initialised(access.address[lane], access.bytes);
  });
}

void Initcheck::atomic(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
                       CtaPoison& cta) {
  const bool wide = access.bytes == 8;
  for_each_lane(access.lanes, [&](int lane) {
    std::uint64_t operands = 0;
    std::uint32_t origin = ir::no_slot;
    for (const std::uint32_t slot : {inst.b, inst.c}) {
      if (slot == ir::no_slot || inst.list != ir::no_slot) continue;
      const std::uint64_t bits = wide ? poison.wide_bits(slot, lane) : poison.bits(slot, lane);
      if (bits != 0) origin = poison.origin(slot);
      operands |= bits;
    }
    const std::uint64_t at = access.address[lane];
    const ir::Form& form = kernel_->info[access.pc].form;
    // exch replaces what was there; every other operation mixes it in.
    const bool replaces = form.has("exch");
    const auto returns = [&](std::uint64_t before) {
      if (inst.d == ir::no_slot || before == 0 || form.opcode != "atom") return;
      if (wide) {
        poison.set_wide(inst.d, lane, before, access.pc);
      } else {
        poison.set(inst.d, lane, static_cast<std::uint32_t>(before), access.pc);
      }
    };
    if (access.space == ir::Space::global) {
      if (operands != 0) report(warp, access.pc, lane, global_atomic, origin, &access.address[lane], access.space);
      if (global_ == nullptr || global_->is_initialised(at, access.bytes)) return;
      if (!replaces) {
        report(warp, access.pc, lane, atomic_on_undefined, ir::no_slot, &access.address[lane], access.space);
      } else if (access.bytes <= 8) {
        returns(~std::uint64_t{0});
      }
      global_->mark_initialised(at, access.bytes);
      return;
    }
    if (access.space != ir::Space::shared || at + access.bytes > cta.shared.size()) return;
    std::uint64_t before = 0;
    std::uint8_t* const bytes = cta.shared.data() + at;
    std::memcpy(&before, bytes, std::min<std::size_t>(access.bytes, 8));
    returns(before);
    const bool undefined = operands != 0 || (!replaces && before != 0);
    std::memset(bytes, undefined ? 0xff : 0, access.bytes);
  });
}

// ldmatrix and stmatrix (PTX ISA 9.7.14.5.15): matrix j takes its rows from lanes 8j to 8j + 7; lane l holds of each
// matrix the elements 2 (l % 4) and the next of row l / 4, or with .trans of column l / 4.
void Initcheck::matrix_rows(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access,
                            RegisterPoison& poison, CtaPoison& cta) {
  if (access.space != ir::Space::shared || inst.list == ir::no_slot) return;
  const bool is_load = access.kind == exec::AccessKind::load;
  if (is_load && shared_is_defined(access, cta.shared)) return;
  const ir::Form& form = kernel_->info[access.pc].form;
  const std::uint32_t matrices = form.has("x4") ? 4 : form.has("x2") ? 2 : 1;
  const bool transposed = form.has("trans");
  const auto row = [&](std::uint32_t matrix, int r) -> std::uint8_t* {
    const auto lane = static_cast<int>(matrix * 8) + r;
    if ((access.lanes >> lane & 1) == 0) return nullptr;
    const std::uint64_t at = access.address[lane];
    return at + 16 <= cta.shared.size() ? cta.shared.data() + at : nullptr;
  };
  for (std::uint32_t matrix = 0; matrix < matrices; ++matrix) {
    const std::uint32_t slot = warp.kernel->lists[inst.list + matrix];
    if (slot == ir::no_slot) continue;
    for (int lane = 0; lane < 32; ++lane) {
      std::uint32_t bits = is_load ? 0 : poison.bits(slot, lane);
      for (int half = 0; half < 2; ++half) {
        const int r = transposed ? 2 * (lane % 4) + half : lane / 4;
        const int column = transposed ? lane / 4 : 2 * (lane % 4) + half;
        std::uint8_t* const bytes = row(matrix, r);
        if (bytes == nullptr) continue;
        std::uint16_t element = 0;
        if (is_load) {
          std::memcpy(&element, bytes + column * 2, 2);
          bits |= static_cast<std::uint32_t>(element) << (16 * half);
        } else {
          element = static_cast<std::uint16_t>(bits >> (16 * half));
          std::memcpy(bytes + column * 2, &element, 2);
        }
      }
      if (is_load) poison.set(slot, lane, bits, access.pc);
    }
  }
}

void Initcheck::land(const exec::Access& access, CtaPoison& cta) {
  for (const exec::AsyncCopy& copy : access.copies) {
    if ((access.lanes >> copy.lane & 1) == 0) continue;
    if (std::uint64_t{copy.destination} + copy.bytes > cta.shared.size()) continue;
    std::uint8_t* const to = cta.shared.data() + copy.destination;
    if (copy.bytes == 16) {  // nearly all of them
      std::memset(to, 0, 16);
    } else {
      std::memset(to, 0, copy.bytes);  // what is not copied is filled with zeros
    }
    if (global_ == nullptr || copy.source_bytes == 0) continue;
    const std::uint32_t undefined = ~global_->initialised_bytes(copy.source, copy.source_bytes);
    if ((undefined & ((1u << copy.source_bytes) - 1u)) == 0) continue;
    for (std::size_t i = 0; i < copy.source_bytes; ++i) to[i] = (undefined >> i & 1) != 0 ? 0xff : 0;
  }
}

}  // namespace flashmoe::vgpu::observe
