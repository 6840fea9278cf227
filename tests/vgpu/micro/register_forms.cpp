#include "vgpu/micro/register_forms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "vgpu/micro/compare.hpp"
#include "vgpu/micro/writer.hpp"
#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::micro {

namespace {

constexpr std::uint32_t even_lanes = 0x55555555u, low_lanes = 0x0000ffffu;

int register_bits(const OperandText& operand, Random& random) {
  int bits = std::max(16, oracle::type_bits(operand.type));
  // cvt takes wider registers for integers (PTX ISA 9.4.1).
  if (operand.may_widen && bits < 64 && !is_float(operand.type) && random() % 2 == 0) bits *= 2;
  return bits;
}

// Values that the form defines a result for.
std::uint64_t source_value(const FormText& form, const OperandText& operand, std::size_t index, Random& random) {
  const std::string& opcode = form.opcode;
  const std::string& type = operand.type;
  std::uint64_t value = any_value(type, random);
  if ((opcode == "div" || opcode == "rem") && !is_float(type) && index == 1) {
    // Zero has no defined quotient, and neither has the least number by -1.
    const std::uint64_t all_ones = ~std::uint64_t{0} >> (64 - oracle::type_bits(type));
    return value == 0 || value == all_ones ? 3 : value;
  }
  if (opcode == "sin" || opcode == "cos") {  // no bound holds beyond 100 pi
    static const std::uint64_t corners[] = {0, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 1, 0x807fffffu};
    return random() % 8 == 0 ? corners[random() % std::size(corners)] : tame_value(type, random);
  }
  if (opcode == "fns" && index == 1) return random() % 32;
  if (opcode == "fns" && index == 2) return random() % 9 - 4;
  if ((opcode == "bfe" || opcode == "bfi") && type == "u32" && index >= 1 && index + 2 >= form.operands.size() - 1)
    return random() % (random() % 2 == 0 ? 40 : 256);
  if ((opcode == "shl" || opcode == "shr" || opcode == "shf" || opcode == "szext" || opcode == "bmsk") && index >= 1 &&
      random() % 2 == 0)
    return random() % 70;
  if (opcode == "shfl" && index == 1) return random() % 40;
  if (opcode == "match") return random() % 3;
  if (opcode == "mma") return tame_value(type, random);
  return value;
}

struct Plan {  // one execution of the instruction under test
  std::string guard{};
  std::string mask = "-1";
  std::string shuffle_segment = "0x1f";
  std::optional<std::size_t> immediate{};  // the source that is written as a literal
};

class Generator {
 public:
  Generator(const FormText& form, Random& random) : form_(form), writer_(form.text, threads(form), random) {}

  std::optional<MicroKernel> run() {
    static const std::vector<std::string> kinds = {"type", "pred", "mask", "immediate", "carry", "vector"};
    if (form_.operands.empty() || form_.operands[0].field != "d") return std::nullopt;
    for (const OperandText& operand : form_.operands)
      if (std::find(kinds.begin(), kinds.end(), operand.kind) == kinds.end()) return std::nullopt;
    for (std::size_t i = 1; i < form_.operands.size(); ++i) load(form_.operands[i], i - 1);

    const bool synchronous = form_.has("sync");
    if (synchronous && form_.has("aligned")) {
      execute({});
      return writer_.finish();
    }
    Plan plain;
    if (form_.has("up")) plain.shuffle_segment = "0";
    execute(plain);
    if (!synchronous && is_warp_wide()) return writer_.finish();
    Plan guarded;
    if (synchronous) {
      const std::uint32_t members = form_.opcode == "shfl" ? low_lanes : even_lanes;
      guarded.mask = fmt::format("0x{:x}", members);
      guarded.shuffle_segment = form_.has("up") ? "0x1000" : "0x100f";  // segments of 16 lanes
      guarded.guard = lane_guard(members);
    } else {
      guarded.guard = writer_.input_predicate([&] { return writer_.random()() % 2 == 0; });
    }
    execute(guarded);
    if (const std::optional<std::size_t> literal = literal_source()) {
      Plan with_literal;
      with_literal.immediate = literal;
      execute(with_literal);
    }
    return writer_.finish();
  }

 private:
  static std::uint32_t threads(const FormText& form) { return form.opcode == "mma" ? 32 : 64; }

  bool is_warp_wide() const { return form_.opcode == "shfl" || form_.opcode == "vote" || form_.opcode == "activemask"; }

  void load(const OperandText& operand, std::size_t index) {
    std::vector<std::string> registers;
    Random& random = writer_.random();
    if (operand.kind == "pred") {
      registers.push_back(writer_.input_predicate([&] { return random() % 2 == 0; }));
    } else if (operand.kind == "vector") {
      const std::string element = operand.field == "a"   ? form_.type(1)
                                  : operand.field == "b" ? form_.type(2)
                                                         : form_.type(3);
      for (int i = 0; i < operand.length; ++i) registers.push_back(matrix_register(operand.type, element));
    } else if (operand.kind == "type") {
      const int bits = register_bits(operand, random);
      registers.push_back(writer_.input(bits, [&] {
        const std::uint64_t value = source_value(form_, operand, index, random);
        // The bits above the type are not looked at.
        const int used = oracle::type_bits(operand.type);
        return used >= bits ? value : value | random() << used;
      }));
    } else if (operand.kind == "immediate") {
      registers.push_back(std::to_string(random() % 256));
    }
    sources_.push_back(registers);
  }

  std::string matrix_register(const std::string& type, const std::string& element) {
    Random& random = writer_.random();
    const int bits = oracle::type_bits(type), part = oracle::type_bits(element);
    return writer_.input(bits, [&] {
      std::uint64_t value = 0;
      for (int at = 0; at < bits; at += part) {
        // Now and then an infinity or a NaN: it has to reach its whole row or column and nothing else.
        const bool corner = is_float(element) && random() % 400 == 0;
        const std::uint64_t one = corner ? any_value(element, random) : tame_value(element, random);
        value |= (one & (~std::uint64_t{0} >> (64 - part))) << at;
      }
      return value;
    });
  }

  std::string lane_guard(std::uint32_t members) {
    const std::string shifted = writer_.fresh(32), predicate = writer_.fresh(1);
    writer_.line(fmt::format("shr.u32 {}, 0x{:x}, %lane;", shifted, members));
    writer_.line(fmt::format("and.b32 {0}, {0}, 1;", shifted));
    writer_.line(fmt::format("setp.eq.u32 {}, {}, 1;", predicate, shifted));
    return predicate;
  }

  // The last source that can be a literal.
  std::optional<std::size_t> literal_source() const {
    if (form_.opcode == "mma" || form_.opcode == "shfl" || form_.opcode == "match" || form_.operands.size() < 3)
      return std::nullopt;
    for (std::size_t i = form_.operands.size(); i-- > 2;) {
      const OperandText& operand = form_.operands[i];
      const bool whole =
          operand.type == "f32" || operand.type == "f64" ||
          (!operand.type.empty() && operand.type.find('x') == std::string::npos && !is_float(operand.type));
      if (operand.kind == "type" && whole && oracle::type_bits(operand.type) >= 32) return i;
    }
    return std::nullopt;
  }

  std::string literal(const OperandText& operand, std::size_t index) {
    const std::uint64_t value = source_value(form_, operand, index, writer_.random());
    if (operand.type == "f32") return fmt::format("0f{:08X}", value);
    if (operand.type == "f64") return fmt::format("0d{:016X}", value);
    return fmt::format("0x{:x}", value);
  }

  std::string source_text(std::size_t i, const Plan& plan) {
    const OperandText& operand = form_.operands[i];
    if (plan.immediate == i) return literal(operand, i - 1);
    if (operand.kind == "mask") return plan.mask;
    if (form_.opcode == "shfl" && operand.field == "c") return plan.shuffle_segment;
    const std::vector<std::string>& registers = sources_[i - 1];
    if (operand.kind != "vector") {
      const bool negate = operand.kind == "pred" && writer_.random()() % 4 == 0;
      return (negate ? "!" : "") + registers.at(0);
    }
    return fmt::format("{{{}}}", fmt::join(registers, ", "));
  }

  bool takes_carry() const {
    return std::any_of(form_.operands.begin(), form_.operands.end(),
                       [](const OperandText& o) { return o.kind == "carry" && o.field == "m"; });
  }
  bool gives_carry() const {
    return std::any_of(form_.operands.begin(), form_.operands.end(),
                       [](const OperandText& o) { return o.kind == "carry" && o.field == "e"; });
  }

  // A destination starts with bits of its own, so that a lane which the guard leaves out shows them again.
  std::string preset(int bits) {
    return writer_.input(bits, [&] { return writer_.random()(); });
  }

  void execute(const Plan& plan) {
    const OperandText& d = form_.operands[0];
    std::vector<std::string> destinations;
    std::string second;
    int bits = 1;
    if (d.kind == "pred") {
      destinations.push_back(writer_.input_predicate([&] { return writer_.random()() % 2 == 0; }));
    } else {
      bits = register_bits(d, writer_.random());
      for (int i = 0; i < d.length; ++i) destinations.push_back(preset(bits));
    }
    std::string to = d.kind == "vector" ? fmt::format("{{{}}}", fmt::join(destinations, ", ")) : destinations[0];
    // An x2 comparison always has two answers.
    const bool needs_pair = form_.opcode == "setp" && form_.type().ends_with("x2");
    if (d.has_pair &&
        (needs_pair || writer_.random()() % 2 == 0 || form_.opcode == "elect" || form_.opcode == "lop3")) {
      second = writer_.input_predicate([&] { return writer_.random()() % 2 == 0; });
      to += "|" + second;
    }
    std::vector<std::string> texts = {to};
    for (std::size_t i = 1; i < form_.operands.size(); ++i)
      if (form_.operands[i].kind != "carry") texts.push_back(source_text(i, plan));
    const bool difference = form_.opcode.starts_with("sub");
    const std::string scratch = writer_.fresh(32);
    if (takes_carry()) {
      const std::string x = writer_.input(32, [&] { return writer_.random()(); });
      const std::string y = writer_.input(32, [&] { return writer_.random()(); });
      writer_.line(fmt::format("{}.cc.u32 {}, {}, {};", difference ? "sub" : "add", scratch, x, y));
    }
    const std::string guard = plan.guard.empty() ? "" : "@" + plan.guard + " ";
    writer_.line(guard + form_.text + " " + fmt::format("{}", fmt::join(texts, ", ")) + ";");
    if (gives_carry() && plan.guard.empty()) {
      writer_.line(fmt::format("{} {}, 0, 0;", difference ? "subc.u32" : "addc.u32", scratch));
      writer_.output(scratch, 32, {0, "b32", {}});
    }
    for (const std::string& destination : destinations) {
      if (d.kind == "pred")
        writer_.output_predicate(destination);
      else
        writer_.output(destination, bits, field(d, bits));
    }
    if (!second.empty()) writer_.output_predicate(second);
  }

  Field field(const OperandText& d, int bits) const {
    // A register that is wider than the type is compared as a whole.
    if (bits != oracle::type_bits(d.type)) return {0, "b" + std::to_string(bits), {}};
    if (form_.opcode == "mma") {
      const std::string result = form_.type(0);
      if (!is_float(result)) return {0, "b32", {}};
      // n additions, each off by one part in 2^(fraction bits) of all that is added (PTX ISA 9.7.14.5: the order and
      // the precision of the accumulation are not specified).
      const double terms = form_.has("m16n8k32") ? 33 : form_.has("m16n8k16") ? 17 : 9;
      const double part = result == "f64" ? 0x1p-52 : result == "f32" ? 0x1p-23 : 0x1p-10;
      return {0, result == "f16" ? "f16x2" : result, {Tolerance::Kind::sum, 0, terms * part, 0}};
    }
    static const std::vector<std::string> moves = {"selp", "slct", "prmt", "and", "or", "xor", "not"};
    const bool moved = std::find(moves.begin(), moves.end(), form_.opcode) != moves.end();
    return {0, d.type, moved ? Tolerance{} : tolerance_of(form_.text)};
  }

  FormText form_;
  Writer writer_;
  std::vector<std::vector<std::string>> sources_{};
};

}  // namespace

std::optional<MicroKernel> register_form(const FormText& form, Random& random) {
  return Generator(form, random).run();
}

}  // namespace flashmoe::vgpu::micro
