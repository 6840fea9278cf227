#include "vgpu/observe/sanitizer/poison_rules.hpp"

#include <string_view>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

std::uint64_t low_ones(int bits) {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

std::uint64_t value(const PoisonStep& step, std::uint32_t slot, int lane, int bits) {
  return bits == 64 ? step.warp.lanes<std::uint64_t>(slot)[lane] : step.warp.slot(slot)[lane];
}

std::uint64_t undefined(const PoisonStep& step, std::uint32_t slot, int lane, int bits) {
  return bits == 64 ? step.poison.wide_bits(slot, lane) : step.poison.bits(slot, lane);
}

void set(const PoisonStep& step, std::uint32_t slot, int lane, int bits, std::uint64_t undefined_bits) {
  if (slot == ir::no_slot) return;
  if (bits == 64) {
    step.poison.set_wide(slot, lane, undefined_bits, step.origin);
  } else {
    step.poison.set(slot, lane, static_cast<std::uint32_t>(undefined_bits), step.origin);
  }
}

bool is_packed_pair(ir::Type type) {
  return type == ir::Type::f16x2 || type == ir::Type::bf16x2 || type == ir::Type::u16x2 || type == ir::Type::s16x2;
}

bool is_pair(ir::Type type) {
  return is_packed_pair(type) || type == ir::Type::e4m3x2 || type == ir::Type::e5m2x2;
}

// Arithmetic on pairs of halves: the halves do not mix.
void packed_pair(const PoisonStep& step) {
  for_each_lane(step.lanes, [&](int lane) {
    std::uint32_t any = 0;
    for (const std::uint32_t slot : step.info.reads) any |= step.poison.bits(slot, lane);
    const std::uint32_t result = ((any & 0xffffu) != 0 ? 0xffffu : 0) | ((any >> 16) != 0 ? 0xffff0000u : 0);
    for (const std::uint32_t slot : step.info.writes) step.poison.set(slot, lane, result, step.origin);
  });
}

// cvt to a pair: of two numbers, the first of which becomes the upper half, or of another pair, half by half.
void converted_pair(const PoisonStep& step) {
  const ir::Form& form = step.info.form;
  const int bits = ir::bits_of(form.type(0)) / 2, from_bits = ir::bits_of(form.type(1)) / 2;
  const bool from_pair = is_pair(form.type(1));
  for_each_lane(step.lanes, [&](int lane) {
    const std::uint32_t a = step.poison.bits(step.inst.a, lane);
    const std::uint64_t lower = from_pair ? a & low_ones(from_bits) : step.poison.bits(step.inst.b, lane);
    const std::uint64_t upper = from_pair ? a >> from_bits & low_ones(from_bits) : a;
    step.poison.set(step.inst.d, lane, poison_pair(lower, upper, bits), step.origin);
  });
}

// mov d, {a, b, ...} and mov {a, b, ...}, d: elements from the lowest bits up.
void pack_or_unpack(const PoisonStep& step) {
  const ir::Form& form = step.info.form;
  const bool packs = form.source_count > 1;
  const int count = packs ? form.source_count : form.destination_count;
  const int whole_bits = packs ? form.destination_bits : form.source_bits;
  const int element_bits = ir::bits_of(form.last_type()) / count;
  const std::uint32_t whole = packs ? step.inst.d : step.inst.a;
  for_each_lane(step.lanes, [&](int lane) {
    std::uint64_t packed = packs ? 0 : undefined(step, whole, lane, whole_bits);
    for (int i = 0; i < count; ++i) {
      const std::uint32_t slot = step.warp.kernel->lists[step.inst.list + static_cast<std::uint32_t>(i)];
      if (slot == ir::no_slot) continue;
      if (packs) {
        packed |= (undefined(step, slot, lane, element_bits) & low_ones(element_bits)) << (i * element_bits);
      } else {
        set(step, slot, lane, element_bits, packed >> (i * element_bits) & low_ones(element_bits));
      }
    }
    if (packs) set(step, whole, lane, whole_bits, packed);
  });
}

// Where a lane's value comes from (PTX ISA 9.7.9.6, the pseudocode there).
int shuffle_source(const exec::Warp& warp, const ir::Inst& inst, const ir::Form& form, int lane) {
  const int distance = static_cast<int>(warp.slot(inst.b)[lane] & 31u);
  const std::uint32_t control = warp.slot(inst.c)[lane];
  const int clamp = static_cast<int>(control & 31u), segment = static_cast<int>(control >> 8 & 31u);
  const int most = (lane & segment) | (clamp & ~segment);
  const int least = lane & segment;
  if (form.has("up")) return lane - distance >= most ? lane - distance : lane;
  const int from = form.has("down")   ? lane + distance
                   : form.has("bfly") ? lane ^ distance
                                      : least | (distance & ~segment);
  return from <= most ? from & 31 : lane;
}

void shuffle(const PoisonStep& step) {
  std::uint32_t result[32] = {};
  for_each_lane(step.lanes, [&](int lane) {
    const bool is_lost = (step.absent >> lane & 1) != 0 || step.poison.bits(step.inst.b, lane) != 0;
    const int from = shuffle_source(step.warp, step.inst, step.info.form, lane);
    result[lane] = is_lost ? 0xffffffffu : step.poison.bits(step.inst.a, from);
  });
  if (step.inst.d != ir::no_slot) {
    for_each_lane(step.lanes, [&](int lane) { step.poison.set(step.inst.d, lane, result[lane], step.origin); });
  }
  for (const std::uint32_t index : step.info.written_predicates) step.poison.define_predicate(index, step.lanes);
}

void shift(const PoisonStep& step, int bits) {
  const bool left = step.info.form.opcode == "shl";
  const bool sign = ir::is_signed(step.info.form.last_type());
  for_each_lane(step.lanes, [&](int lane) {
    const std::uint64_t pa = undefined(step, step.inst.a, lane, bits) & low_ones(bits);
    std::uint64_t result = low_ones(bits);
    if (step.poison.bits(step.inst.b, lane) == 0) {
      const std::uint32_t amount = step.warp.slot(step.inst.b)[lane];
      if (left) {
        result = amount >= static_cast<std::uint32_t>(bits) ? 0 : pa << amount & low_ones(bits);
      } else {
        const std::uint64_t wide = poison_extended(pa, bits, sign);
        result = (amount >= 64 ? (wide >> 63 != 0 ? ~std::uint64_t{0} : 0) : wide >> amount) & low_ones(bits);
        if (sign && amount < 64 && (wide >> 63) != 0) result |= ~(~std::uint64_t{0} >> amount) & low_ones(bits);
      }
    }
    set(step, step.inst.d, lane, bits, result);
  });
}

}  // namespace

std::uint32_t lanes_without_source(const exec::Warp& warp, const ir::Inst& inst, const ir::Form& form) {
  const std::uint32_t* const masks = inst.m == ir::no_slot ? nullptr : warp.slot(inst.m);
  std::uint32_t named = exec::all_lanes;  // by all of them
  if (masks != nullptr) for_each_lane(warp.exec, [&](int lane) { named &= masks[lane]; });
  if ((warp.exec & named) == exec::all_lanes) return 0;
  std::uint32_t without = 0;
  for_each_lane(warp.exec, [&](int lane) {
    const std::uint32_t part = warp.exec & (masks == nullptr ? exec::all_lanes : masks[lane]);
    const int from = shuffle_source(warp, inst, form, lane);
    without |= from != lane && (part >> from & 1) == 0 ? 1u << lane : 0u;
  });
  return without;
}

std::uint64_t poison_and(std::uint64_t a, std::uint64_t pa, std::uint64_t b, std::uint64_t pb) {
  return (pa & (b | pb)) | (pb & (a | pa));
}

std::uint64_t poison_or(std::uint64_t a, std::uint64_t pa, std::uint64_t b, std::uint64_t pb) {
  return (pa & (~b | pb)) | (pb & (~a | pa));
}

std::uint64_t poison_extended(std::uint64_t poison, int from, bool sign) {
  poison &= low_ones(from);
  const bool sign_undefined = sign && (poison >> (from - 1) & 1) != 0;
  return sign_undefined ? poison | ~low_ones(from) : poison;
}

std::uint32_t poison_permuted(std::uint32_t pa, std::uint32_t pb, std::uint32_t selector) {
  const std::uint64_t bytes = pa | std::uint64_t{pb} << 32;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t pick = selector >> (4 * i) & 0xfu;
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> ((pick & 7u) * 8)) & 0xffu;
    if ((pick & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0;  // the sign, repeated
    result |= byte << (8 * i);
  }
  return result;
}

std::uint32_t poison_pair(std::uint64_t lower, std::uint64_t upper, int bits) {
  const std::uint64_t half = low_ones(bits);
  return static_cast<std::uint32_t>((lower != 0 ? half : 0) | (upper != 0 ? half << bits : 0));
}

void poison_any_to_all(const PoisonStep& step) {
  if (step.info.form.opcode == "cvt" && is_pair(step.info.form.type(0))) {
    converted_pair(step);
    return;
  }
  if (is_packed_pair(step.info.form.last_type()) && step.info.written_predicates.empty() &&
      step.info.read_predicates.empty()) {
    packed_pair(step);
    return;
  }
  for (const std::uint32_t slot : step.info.writes) {
    step.poison.define(slot, step.lanes);
    step.poison.poison(slot, step.dirty, step.origin);
  }
  for (const std::uint32_t index : step.info.written_predicates) {
    step.poison.define_predicate(index, step.lanes);
    step.poison.poison_predicate(index, step.dirty, step.origin);
  }
}

void poison_move(const PoisonStep& step) {
  const ir::Form& form = step.info.form;
  const std::string_view op = form.opcode;
  if (op == "shfl") return shuffle(step);
  if (op == "mov" && (form.source_count > 1 || form.destination_count > 1)) return pack_or_unpack(step);
  if (op == "mov" && !step.info.writes.empty() && step.info.writes.size() == step.info.reads.size()) {
    for_each_lane(step.lanes, [&](int lane) {
      for (std::size_t i = 0; i < step.info.writes.size(); ++i) {
        step.poison.set(step.info.writes[i], lane, step.poison.bits(step.info.reads[i], lane), step.origin);
      }
    });
    return;
  }
  if (op == "prmt" && form.modifiers.size() == 1) {
    for_each_lane(step.lanes, [&](int lane) {
      const bool selector_undefined = step.poison.bits(step.inst.c, lane) != 0;
      const std::uint32_t result =
          selector_undefined ? 0xffffffffu
                             : poison_permuted(step.poison.bits(step.inst.a, lane), step.poison.bits(step.inst.b, lane),
                                               step.warp.slot(step.inst.c)[lane]);
      step.poison.set(step.inst.d, lane, result, step.origin);
    });
    return;
  }
  const bool integers = form.types.size() == 2 && !form.has("sat") && form.rounding == ir::Rounding::none;
  if (op == "cvt" && integers) {
    const int from = ir::bits_of(form.type(1)), to = ir::bits_of(form.type(0));
    for_each_lane(step.lanes, [&](int lane) {
      const std::uint64_t in = undefined(step, step.inst.a, lane, from);
      const std::uint64_t out = poison_extended(in, from, ir::is_signed(form.type(1)));
      set(step, step.inst.d, lane, form.destination_bits == 64 ? 64 : 32, out & low_ones(to));
    });
    return;
  }
  poison_any_to_all(step);
}

void poison_bitwise(const PoisonStep& step) {
  const ir::Form& form = step.info.form;
  const std::string_view op = form.opcode;
  const int bits = ir::bits_of(form.last_type());
  if (!step.info.written_predicates.empty()) {
    // and.pred and its kin: a defined false decides an and, a defined true an or.
    const bool two = step.inst.b != ir::no_slot;
    if (step.inst.a == ir::no_slot || step.inst.d == ir::no_slot ||
        (op != "and" && op != "or" && op != "xor" && op != "not")) {
      return poison_any_to_all(step);
    }
    const std::uint32_t a = step.warp.predicates[step.inst.a], pa = step.poison.predicate(step.inst.a);
    const std::uint32_t b = two ? step.warp.predicates[step.inst.b] : 0,
                        pb = two ? step.poison.predicate(step.inst.b) : 0;
    const std::uint64_t result = op == "and"  ? poison_and(a, pa, b, pb)
                                 : op == "or" ? poison_or(a, pa, b, pb)
                                              : pa | pb;
    step.poison.define_predicate(step.inst.d, step.lanes);
    step.poison.poison_predicate(step.inst.d, static_cast<std::uint32_t>(result) & step.lanes, step.origin);
    return;
  }
  if (op == "shl" || op == "shr") return shift(step, bits);
  const bool is_and = op == "and", is_or = op == "or";
  if (!is_and && !is_or && op != "xor" && op != "not" && op != "lop3") return poison_any_to_all(step);
  for_each_lane(step.lanes, [&](int lane) {
    const std::uint64_t pa = undefined(step, step.inst.a, lane, bits);
    const std::uint64_t pb = step.inst.b == ir::no_slot ? 0 : undefined(step, step.inst.b, lane, bits);
    std::uint64_t result = pa | pb;
    if (is_and || is_or) {
      const std::uint64_t a = value(step, step.inst.a, lane, bits), b = value(step, step.inst.b, lane, bits);
      result = is_and ? poison_and(a, pa, b, pb) : poison_or(a, pa, b, pb);
    } else if (op == "lop3") {
      result |= undefined(step, step.inst.c, lane, bits);
    }
    set(step, step.inst.d, lane, bits, result & low_ones(bits));
  });
}

void poison_select(const PoisonStep& step) {
  if (step.info.form.opcode != "selp" || step.inst.c == ir::no_slot) return poison_any_to_all(step);
  const int bits = ir::bits_of(step.info.form.last_type());
  const std::uint32_t chooses = step.warp.predicates[step.inst.c] ^ (step.inst.not_c ? 0xffffffffu : 0);
  const std::uint32_t undecided = step.poison.predicate(step.inst.c);
  for_each_lane(step.lanes, [&](int lane) {
    const bool takes_a = (chooses >> lane & 1) != 0;
    const std::uint64_t chosen = undefined(step, takes_a ? step.inst.a : step.inst.b, lane, bits);
    set(step, step.inst.d, lane, bits, (undecided >> lane & 1) != 0 ? low_ones(bits) : chosen);
  });
}

void poison_vote(const PoisonStep& step) {
  PoisonStep all = step;
  all.dirty = step.lanes;
  poison_any_to_all(all);
}

// D[m][n] needs row m of A, column n of B and C[m][n]. In every m16n8 and m8n8 shape (PTX ISA 9.7.14.5, the fragment
// figures) lane l holds rows l / 4 (even registers of A) and l / 4 + 8 (odd ones), column l / 4 of B, and of C and D
// the columns 2 (l % 4) and the one after it.
void poison_matrix_multiply(const PoisonStep& step) {
  const ir::Form& form = step.info.form;
  const bool rows16 = !form.modifiers.empty() && [&] {
    for (const std::string& modifier : form.modifiers) {
      if (modifier.starts_with("m16n8")) return true;
    }
    return false;
  }();
  const std::uint32_t* const list =
      step.inst.list == ir::no_slot ? nullptr : step.warp.kernel->lists.data() + step.inst.list;
  const auto register_count = [&](ir::Type type, int elements) {
    const int element_bits = ir::bits_of(type);
    return static_cast<std::uint32_t>(element_bits >= 32 ? elements : elements * element_bits / 32);
  };
  int m = 0, n = 0, k = 0;
  for (const std::string& modifier : form.modifiers) {
    if (std::sscanf(modifier.c_str(), "m%dn%dk%d", &m, &n, &k) == 3) break;
  }
  const bool known = list != nullptr && n == 8 && (m == 16 || m == 8) && form.types.size() == 4 &&
                     form.type(1) != ir::Type::f64 && !(m == 8 && form.type(1) == ir::Type::f16);
  if (!known) {
    // f64 (wide registers) and the quad-pair layout of sm_70: the whole warp counts.
    PoisonStep all = step;
    all.dirty = step.lanes;
    return poison_any_to_all(all);
  }
  // tf32 and integers narrower than a register: tf32 fills one, 8-bit elements share one.
  const auto elements_bits = [](ir::Type type) { return type == ir::Type::tf32 ? 32 : ir::bits_of(type); };
  const std::uint32_t d_regs = register_count(form.type(0), m * n / 32),
                      c_regs = register_count(form.type(3), m * n / 32);
  const auto a_regs = static_cast<std::uint32_t>(m * k * elements_bits(form.type(1)) / 32 / 32);
  const auto b_regs = static_cast<std::uint32_t>(n * k * elements_bits(form.type(2)) / 32 / 32);
  const std::uint32_t *d = list, *a = d + d_regs, *b = a + a_regs, *c = b + b_regs;

  std::uint32_t bad_rows = 0, bad_columns = 0;
  for (int lane = 0; lane < 32; ++lane) {
    for (std::uint32_t i = 0; i < a_regs; ++i) {
      if (step.poison.bits(a[i], lane) != 0) bad_rows |= 1u << (lane / 4 + (rows16 && (i & 1) != 0 ? 8 : 0));
    }
    for (std::uint32_t i = 0; i < b_regs; ++i) {
      if (step.poison.bits(b[i], lane) != 0) bad_columns |= 1u << (lane / 4);
    }
  }
  const bool halves = ir::bits_of(form.type(0)) == 16;
  for_each_lane(step.lanes, [&](int lane) {
    const int column = 2 * (lane % 4);
    std::uint32_t result[8] = {};
    for (std::uint32_t i = 0; i < d_regs; ++i) {
      const std::uint32_t elements = halves ? 2 : 1;
      for (std::uint32_t e = 0; e < elements; ++e) {
        const std::uint32_t element = i * elements + e;  // 0..3: row l / 4 first, then the row 8 below
        const int row = lane / 4 + (element >= 2 ? 8 : 0);
        const bool of_inputs =
            (bad_rows >> row & 1) != 0 || (bad_columns >> (column + static_cast<int>(element & 1)) & 1) != 0;
        std::uint32_t accumulator = 0;
        if (c_regs == d_regs) {
          accumulator = step.poison.bits(c[i], lane);
          if (halves) accumulator &= e == 0 ? 0xffffu : 0xffff0000u;
        } else {
          for (std::uint32_t j = 0; j < c_regs; ++j) accumulator |= step.poison.bits(c[j], lane);
        }
        if (!of_inputs && accumulator == 0) continue;
        result[i] |= !halves ? 0xffffffffu : e == 0 ? 0xffffu : 0xffff0000u;
      }
    }
    for (std::uint32_t i = 0; i < d_regs; ++i) step.poison.set(d[i], lane, result[i], step.origin);
  });
}

}  // namespace flashmoe::vgpu::observe
