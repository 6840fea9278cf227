// ld, st, atom, red, cp.async and the hints that change nothing: PTX ISA 9.7.9, 9.7.13.
#include <algorithm>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

int bytes_of(std::string_view type) {
  return std::max(1, type_bits(type) / 8);
}

void check_alignment(const Step& s, std::uint64_t address, std::uint64_t bytes) {
  if (address % bytes != 0) s.unknown("a vector is not aligned to its size");
}

void load(Step& s) {
  const std::string_view type = s.type();
  const std::uint64_t address = s.address(1, s.space());
  const std::span<const ptx::Operand> to = elements(s.operand(0));
  const int bytes = bytes_of(type);
  check_alignment(s, address, static_cast<std::uint64_t>(bytes) * to.size());
  for (std::size_t i = 0; i < to.size(); ++i)
    s.write_as(to[i], type, s.machine.load(s.thread, address + i * static_cast<std::uint64_t>(bytes), bytes));
}

void store(Step& s) {
  const std::string_view type = s.type();
  const std::uint64_t address = s.address(0, s.space());
  const std::span<const ptx::Operand> from = elements(s.operand(1));
  const int bytes = bytes_of(type);
  check_alignment(s, address, static_cast<std::uint64_t>(bytes) * from.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    s.machine.store(s.thread, address + i * static_cast<std::uint64_t>(bytes), bytes, s.read(from[i], type));
}

Bits float_update(const Step& s, std::string_view type, Bits old, Bits b) {
  const Format format = format_of(type);
  const Number x = decode(old, format), y = decode(b, format);
  if (s.has("add")) return encode(add(x, y, Round::nearest_even), format, Round::nearest_even);
  // min and max are those of the arithmetic instructions: a number wins over NaN, +0 is greater than -0.
  if (x.is_nan()) return y.is_nan() ? format.canonical_nan : b;
  if (y.is_nan()) return old;
  int larger = order(x, y);
  if (larger == 0) larger = (x.negative ? 0 : 1) - (y.negative ? 0 : 1);
  return (larger > 0) == s.has("max") ? old : b;
}

Bits updated(const Step& s, std::string_view type, Bits old, Bits b, Bits c) {
  const int bits = type_bits(type);
  if (s.has("exch")) return b;
  if (s.has("cas")) return old == b ? c : old;
  if (s.has("and")) return old & b;
  if (s.has("or")) return old | b;
  if (s.has("xor")) return old ^ b;
  if (s.has("inc")) return old >= b ? 0 : old + 1;
  if (s.has("dec")) return old == 0 || old > b ? b : old - 1;
  if (type.ends_with("x2")) {
    const std::string_view half = type.substr(0, type.size() - 2);
    const Bits low = float_update(s, half, old & 0xffff, b & 0xffff);
    return float_update(s, half, old >> 16, b >> 16) << 16 | low;
  }
  if (type[0] == 'f' || type.starts_with("bf")) return float_update(s, type, old, b);
  if (s.has("add")) return (old + b) & mask_of(bits);
  const bool less = type[0] == 's' ? sign_extend(old, bits) < sign_extend(b, bits) : old < b;
  if (s.has("min")) return less ? old : b;
  if (s.has("max")) return less ? b : old;
  s.unknown("no such atomic operation");
}

void atomic(Step& s) {
  const bool returns = s.instruction.opcode == "atom";
  const std::size_t at = returns ? 1 : 0;
  const std::string_view type = s.type();
  const std::string_view held = type.ends_with("x2") ? "b32" : type;
  const int bytes = bytes_of(held);
  const std::uint64_t address = s.address(at, s.space());
  const std::span<const ptx::Operand> values = elements(s.operand(at + 1));
  const std::span<const ptx::Operand> results = returns ? elements(s.operand(0)) : std::span<const ptx::Operand>{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t place = address + i * static_cast<std::uint64_t>(bytes);
    const Bits old = s.machine.load(s.thread, place, bytes);
    const Bits b = s.read(values[i], held);
    const Bits c = s.has("cas") ? s.read(at + 2, held) : 0;
    s.machine.store(s.thread, place, bytes, updated(s, type, old, b, c));
    if (returns) s.write_as(results[i], held, old);
  }
}

void land(Step& s, const PendingCopy& copy) {
  for (int byte = 0; byte < copy.bytes; ++byte) {
    const auto offset = static_cast<std::uint64_t>(byte);
    const Bits value = byte < copy.source_bytes ? s.machine.load(s.thread, copy.source + offset, 1) : 0;
    s.machine.store(s.thread, copy.destination + offset, 1, value);
  }
}

void copy_async(Step& s) {
  if (s.has("commit_group")) {
    ++s.thread.committed_groups;
    return;
  }
  if (s.has("wait_group") || s.has("wait_all")) {
    // wait_all also waits for copies that no group was closed over.
    const auto pending = s.has("wait_all") ? 0u : static_cast<std::uint32_t>(s.read(0, "u32"));
    std::vector<PendingCopy> left;
    for (const PendingCopy& copy : s.thread.copies) {
      const bool done = s.has("wait_all") || copy.group + pending < s.thread.committed_groups;
      if (done)
        land(s, copy);
      else
        left.push_back(copy);
    }
    s.thread.copies = left;
    return;
  }
  PendingCopy copy;
  copy.destination = s.address(0, "shared");
  copy.source = s.address(1, "global");
  copy.bytes = static_cast<int>(s.read(2, "u32"));
  copy.source_bytes = copy.bytes;
  copy.group = s.thread.committed_groups;
  check_alignment(s, copy.destination, static_cast<std::uint64_t>(copy.bytes));
  check_alignment(s, copy.source, static_cast<std::uint64_t>(copy.bytes));
  if (s.operands() > 3) {
    const ptx::Operand& last = s.operand(3);
    const auto& registers = s.thread.frames.back().program->register_bits;
    const auto found = registers.find(last.name);
    if (last.kind == ptx::Operand::Kind::identifier && found != registers.end() && found->second == 1)
      copy.source_bytes = s.predicate(3) ? 0 : copy.bytes;  // ignore-src: zeros
    else if (!s.has("L2::cache_hint") || s.operands() > 4)
      copy.source_bytes = static_cast<int>(s.read(3, "u32"));
  }
  s.thread.copies.push_back(copy);
}

}  // namespace

void land_copies(Step& s) {
  for (const PendingCopy& copy : s.thread.copies) land(s, copy);
  s.thread.copies.clear();
}

bool memory_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode == "ld" || opcode == "ldu") {
    load(s);
  } else if (opcode == "st") {
    store(s);
  } else if (opcode == "atom" || opcode == "red") {
    atomic(s);
  } else if (opcode == "cp" && s.has("async")) {
    copy_async(s);
  } else if (opcode == "prefetch" || opcode == "prefetchu" || opcode == "applypriority" || opcode == "fence" ||
             opcode == "membar" || opcode == "nanosleep" || opcode == "pmevent" || opcode == "griddepcontrol" ||
             opcode == "setmaxnreg" || opcode == "discard" || opcode == "brkpt") {
    return true;  // hints and orderings: one thread after another is ordered already
  } else if (opcode == "createpolicy") {
    s.write(0, 0);  // opaque, and only ever a hint
  } else {
    return false;
  }
  return true;
}

}  // namespace flashmoe::vgpu::oracle
