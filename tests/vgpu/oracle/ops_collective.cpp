// Warp-wide instructions: shfl, vote, match, redux, elect, activemask, bar.warp (PTX ISA 9.7.9.6, 9.7.13). Each is
// written as the manual does: what one lane gets, given what all lanes hold.
#include <algorithm>
#include <optional>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

using Lanes = std::array<Thread*, 32>;

const std::vector<std::string>& collective_opcodes() {
  static const std::vector<std::string> names = {"shfl",       "vote",     "match",    "redux", "elect",
                                                 "activemask", "ldmatrix", "stmatrix", "mma",   "movmatrix"};
  return names;
}

// The first operand is `d` or `d|p`.
void write_pair(Step& s, Bits value, bool predicate) {
  const ptx::Operand& to = s.operand(0);
  if (to.kind != ptx::Operand::Kind::predicate_pair) {
    s.write(to, value);
    return;
  }
  s.write(to.parts.at(0), value);
  s.write(to.parts.at(1), predicate);
}

struct Source {  // of a shuffle: the lane read from, and whether it is inside the segment
  int lane = 0;
  bool inside = false;
};

Source shuffle_source(const Step& s, int lane) {
  const auto b = static_cast<int>(s.read(2, "u32") & 31);
  const auto c = static_cast<int>(s.read(3, "u32"));
  const int clamp = c & 31, mask = c >> 8 & 31;
  const int most = (lane & mask) | (clamp & ~mask), least = lane & mask;
  Source from;
  if (s.has("up")) {
    from.lane = lane - b;
    from.inside = from.lane >= most;
  } else {
    if (s.has("down")) from.lane = lane + b;
    if (s.has("bfly")) from.lane = lane ^ b;
    if (s.has("idx")) from.lane = least | (b & ~mask);
    from.inside = from.lane <= most;
  }
  if (!from.inside) from.lane = lane;
  return from;
}

void shuffle(std::vector<Step>& steps) {
  std::array<std::optional<Bits>, 32> held;
  for (const Step& s : steps) held[static_cast<std::size_t>(s.thread.lane)] = s.read(1, "b32");
  std::vector<Source> sources;
  for (const Step& s : steps) sources.push_back(shuffle_source(s, s.thread.lane));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::optional<Bits> value = held[static_cast<std::size_t>(sources[i].lane)];
    if (!value) steps[i].unknown("it reads from a lane that takes no part");
    write_pair(steps[i], *value, sources[i].inside);
  }
}

void vote(std::vector<Step>& steps) {
  Bits ballot = 0;
  bool all = true;
  for (const Step& s : steps) {
    const bool a = s.predicate(1);
    all = all && a;
    if (a) ballot |= Bits{1} << s.thread.lane;
  }
  for (Step& s : steps) {
    if (s.has("ballot")) s.write(0, ballot);
    if (s.has("all")) s.write(0, all);
    if (s.has("any")) s.write(0, ballot != 0);
    if (s.has("uni")) s.write(0, all || ballot == 0);
  }
}

void match(std::vector<Step>& steps) {
  const std::string_view type = steps.front().type();
  std::vector<Bits> values;
  Bits members = 0;
  for (const Step& s : steps) {
    values.push_back(s.read(1, type));
    members |= Bits{1} << s.thread.lane;
  }
  const bool equal = std::all_of(values.begin(), values.end(), [&](Bits v) { return v == values[0]; });
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].has("all")) {
      write_pair(steps[i], equal ? members : 0, equal);
      continue;
    }
    Bits same = 0;
    for (std::size_t j = 0; j < steps.size(); ++j)
      if (values[j] == values[i]) same |= Bits{1} << steps[j].thread.lane;
    steps[i].write(0, same);
  }
}

void reduce(std::vector<Step>& steps) {
  const std::string_view type = steps.front().type();
  std::optional<Bits> result;
  for (const Step& s : steps) {
    const Bits value = s.read(1, type);
    if (!result) {
      result = value;
      continue;
    }
    const bool less = type[0] == 's' ? sign_extend(value, 32) < sign_extend(*result, 32) : value < *result;
    if (s.has("add")) result = (*result + value) & mask_of(32);
    if (s.has("min")) result = less ? value : *result;
    if (s.has("max")) result = less ? *result : value;
    if (s.has("and")) result = *result & value;
    if (s.has("or")) result = *result | value;
    if (s.has("xor")) result = *result ^ value;
  }
  for (Step& s : steps) s.write(0, *result);
}

void elect(std::vector<Step>& steps) {
  const int leader = steps.front().thread.lane;
  for (Step& s : steps) write_pair(s, static_cast<Bits>(leader), s.thread.lane == leader);
}

void active_mask(std::vector<Step>& steps) {
  Bits mask = 0;
  for (const Step& s : steps) mask |= Bits{1} << s.thread.lane;
  for (Step& s : steps) s.write(0, mask);
}

}  // namespace

bool is_collective(const ptx::Instruction& instruction) {
  if (instruction.opcode == "bar" || instruction.opcode == "barrier")
    return !instruction.modifiers.empty() && instruction.modifiers[0] == "warp";
  const auto& names = collective_opcodes();
  return std::find(names.begin(), names.end(), instruction.opcode) != names.end();
}

std::uint32_t member_mask(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  const auto last = [&] { return static_cast<std::uint32_t>(s.read(s.operands() - 1, "b32")); };
  if (!s.has("sync")) return 0xffffffffu;  // the forms before .sync: the whole warp, in step
  if (opcode == "shfl" || opcode == "vote" || opcode == "match" || opcode == "redux" || opcode == "elect")
    return last();
  if (opcode == "bar" || opcode == "barrier") return last();
  return 0xffffffffu;  // .aligned: all threads of the warp
}

void collective_op(Machine& machine, const Lanes& lanes, const ptx::Instruction& instruction) {
  std::vector<Step> steps;
  for (Thread* lane : lanes)
    if (lane != nullptr) steps.emplace_back(machine, *lane, instruction);
  const std::string_view opcode = instruction.opcode;
  if (opcode == "shfl")
    shuffle(steps);
  else if (opcode == "vote")
    vote(steps);
  else if (opcode == "match")
    match(steps);
  else if (opcode == "redux")
    reduce(steps);
  else if (opcode == "elect")
    elect(steps);
  else if (opcode == "activemask")
    active_mask(steps);
  else if (opcode != "bar" && opcode != "barrier")
    matrix_op(machine, lanes, instruction);
}

}  // namespace flashmoe::vgpu::oracle
