// mbarrier objects (PTX ISA 9.7.13.15): eight bytes of shared memory that count arrivals. Their contents are opaque;
// here they are pending arrivals, expected arrivals and the number of completed phases.
#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

constexpr int count_bits = 20;

struct Object {
  std::uint64_t pending = 0, expected = 0, phase = 0;
};

Object unpack(Bits bits) {
  const auto word = static_cast<std::uint64_t>(bits);
  const std::uint64_t mask = (1u << count_bits) - 1;
  return {word & mask, word >> count_bits & mask, word >> (2 * count_bits)};
}
Bits pack(const Object& o) {
  return o.phase << (2 * count_bits) | o.expected << count_bits | o.pending;
}

void arrive(Object& object, std::uint64_t count, bool may_complete, const Step& s) {
  if (count > object.pending) s.unknown("more arrivals than are pending");
  object.pending -= count;
  if (object.pending != 0) return;
  if (!may_complete) s.unknown("an arrival with .noComplete completes the phase");
  object.pending = object.expected;
  ++object.phase;
}

}  // namespace

bool mbarrier_op(Step& s) {
  const bool copy_arrives = s.instruction.opcode == "cp" && s.has("mbarrier");
  if (s.instruction.opcode != "mbarrier" && !copy_arrives) return false;
  if (s.has("pending_count")) {
    s.write(0, unpack(s.read(1, "b64")).pending);
    return true;
  }
  const bool gives_result = !s.has("init") && !s.has("inval") && !copy_arrives;
  const std::size_t at = gives_result ? 1 : 0;
  const std::uint64_t address = s.address(at, s.space().empty() ? "" : "shared");
  if (s.has("init")) {
    const auto count = static_cast<std::uint64_t>(s.read(1, "u32"));
    s.machine.store(s.thread, address, 8, pack({count, count, 0}));
    return true;
  }
  if (s.has("inval")) {
    s.machine.store(s.thread, address, 8, 0);
    return true;
  }
  Object object = unpack(s.machine.load(s.thread, address, 8));
  if (s.has("test_wait") || s.has("try_wait")) {
    const bool done = s.has("parity") ? object.phase % 2 != static_cast<std::uint64_t>(s.read(2, "u32"))
                                      : object.phase != unpack(s.read(2, "b64")).phase;
    s.write(0, done);
    return true;
  }
  if (copy_arrives) {
    // Copies land when they are waited for; here the arrival waits for them.
    land_copies(s);
    if (!s.has("noinc")) ++object.pending;
    arrive(object, 1, true, s);
    s.machine.store(s.thread, address, 8, pack(object));
    return true;
  }
  const Object before = object;
  const auto count = s.operands() > 2 ? static_cast<std::uint64_t>(s.read(2, "u32")) : 1;
  if (s.has("arrive_drop")) object.expected -= count;
  arrive(object, count, !s.has("noComplete"), s);
  s.machine.store(s.thread, address, 8, pack(object));
  s.write(0, pack(before));
  return true;
}

}  // namespace flashmoe::vgpu::oracle
