#include "vgpu/micro/memory_forms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "vgpu/micro/writer.hpp"
#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::micro {

namespace {

constexpr std::uint32_t window = 64;  // bytes of memory each thread works on
constexpr std::uint32_t threads = 32;

int memory_bytes(const FormText& form) {
  return std::max(1, oracle::type_bits(form.type()) / 8);
}

// Registers of a load or store may be wider than the type (PTX ISA 9.4.1); a byte needs 16 bits at least.
int register_bits(const FormText& form, Random& random) {
  int bits = std::max(16, oracle::type_bits(form.type()));
  if (bits < 64 && form.type()[0] != 'f' && form.opcode != "atom" && form.opcode != "red" && random() % 3 == 0)
    bits *= 2;
  return bits;
}

std::string as_operand(const std::vector<std::string>& registers) {
  return registers.size() == 1 ? registers[0] : fmt::format("{{{}}}", fmt::join(registers, ", "));
}

// Puts 64 bytes of a thread's input where the form will find them; the register (or name) of their address.
class Memory {
 public:
  Memory(Writer& writer, const FormText& form) : w_(writer), form_(form), space_(space_of(form)) {}

  // Filled from the thread's inputs. The window read is that of the neighbour where other threads can see it.
  std::string filled() {
    const std::uint32_t offset = w_.reserve_input(window, [&] { return w_.random()(); });
    return place(offset, true);
  }
  std::string filled_with(std::uint32_t offset) { return place(offset, true); }

  // Where results of stores go. `copy_out` brings them to the results afterwards.
  std::string empty() { return place(0, false); }

  void copy_out(const std::string& address) {
    const std::uint32_t to = w_.reserve_output(window, window);
    if (space_ == "global" || space_.empty()) return;  // the results themselves
    const std::string word = w_.fresh(64);
    const std::string space = space_ == "shared" ? "shared" : "local";
    for (std::uint32_t i = 0; i < window; i += 8) {
      w_.line(fmt::format("ld.{}.b64 {}, [{}+{}];", space, word, address, i));
      w_.line(fmt::format("st.global.b64 [%out+{}], {};", to + i, word));
    }
  }

 private:
  std::string place(std::uint32_t offset, bool fill) {
    const std::string address = w_.fresh(64);
    if (space_ == "shared") return shared(offset, fill);
    if (space_ == "local") return local(offset, fill);
    if (!fill) {
      w_.line(fmt::format("mov.b64 {}, %out;", address));
      return address;
    }
    w_.line(fmt::format("add.u64 {}, %in, {};", address, offset));
    return address;
  }

  void copy_in(const std::string& space, const std::string& address, std::uint32_t offset) {
    const std::string word = w_.fresh(64);
    for (std::uint32_t i = 0; i < window; i += 8) {
      w_.line(fmt::format("ld.global.b64 {}, [%in+{}];", word, offset + i));
      w_.line(fmt::format("st.{}.b64 [{}+{}], {};", space, address, i, word));
    }
  }

  std::string shared(std::uint32_t offset, bool fill) {
    w_.shared(fmt::format(".shared .align 64 .b8 tile[{}];", window * threads));
    const std::string address = w_.fresh(32), base = w_.fresh(32);
    w_.line(fmt::format("mov.u32 {}, tile;", base));
    w_.line(fmt::format("mad.lo.u32 {}, %thread, {}, {};", address, window, base));
    if (!fill) return address;
    copy_in("shared", address, offset);
    if (form_.opcode == "atom" || form_.opcode == "red") return address;
    // What a neighbour wrote: the barrier counts too.
    w_.line("bar.sync 0;");
    const std::string neighbour = w_.fresh(32);
    w_.line(fmt::format("xor.b32 {}, %thread, 1;", neighbour));
    w_.line(fmt::format("mad.lo.u32 {}, {}, {}, {};", neighbour, neighbour, window, base));
    return neighbour;
  }

  std::string local(std::uint32_t offset, bool fill) {
    w_.shared(fmt::format(".local .align 64 .b8 depot[{}];", window));
    const std::string address = w_.fresh(64);
    w_.line(fmt::format("mov.u64 {}, depot;", address));
    if (fill) {
      copy_in("local", address, offset);
    } else {
      for (std::uint32_t i = 0; i < window; i += 8) w_.line(fmt::format("st.local.b64 [{}+{}], 0;", address, i));
    }
    return address;
  }

  Writer& w_;
  const FormText& form_;
  std::string space_;
};

std::vector<std::string> destinations(Writer& w, const FormText& form, int bits) {
  std::vector<std::string> registers;
  for (int i = 0; i < form.vector_length(); ++i) registers.push_back(w.fresh(bits));
  return registers;
}

void store_results(Writer& w, const std::vector<std::string>& registers, int bits) {
  for (const std::string& reg : registers) w.output(reg, bits, {0, "b" + std::to_string(bits), {}});
}

// Offsets at which the type may lie in the window.
std::uint32_t some_offset(const FormText& form, Random& random) {
  const auto bytes = static_cast<std::uint32_t>(memory_bytes(form) * form.vector_length());
  return static_cast<std::uint32_t>(random() % (window / bytes)) * bytes;
}

MicroKernel load_form(const FormText& form, Random& random) {
  Writer w(form.text, threads, random);
  const std::string space = space_of(form);
  const int bits = register_bits(form, random);
  const std::uint32_t offset = some_offset(form, random);
  const std::vector<std::string> to = destinations(w, form, bits);
  if (space == "param") {
    w.kernel().block.resize(128);
    for (std::uint8_t& byte : w.kernel().block) byte = static_cast<std::uint8_t>(random());
    w.line(fmt::format("{} {}, [block+{}];", form.text, as_operand(to), offset));
  } else if (space == "func") {
    // The parameter of a device function: loaded there, given back as bits.
    std::string body = fmt::format("  .reg .b{} %x<8>;\n", bits);
    std::vector<std::string> inner;
    for (int i = 0; i < form.vector_length(); ++i) inner.push_back(fmt::format("%x{}", i));
    body += fmt::format("  {} {}, [given+{}];\n", form.text, as_operand(inner), offset);
    for (int i = 0; i < form.vector_length(); ++i)
      body += fmt::format("  st.param.b{} [back+{}], %x{};\n", bits, 8 * i, i);
    w.module(fmt::format(
        ".func (.param .align 64 .b8 back[64]) callee(.param .align 64 .b8 given[64]) {{\n{}  ret;\n}}", body));
    const std::uint32_t from = w.reserve_input(window, [&] { return random(); });
    const std::string word = w.fresh(64);
    w.line("{ .param .align 64 .b8 argument[64]; .param .align 64 .b8 result[64];");
    for (std::uint32_t i = 0; i < window; i += 8) {
      w.line(fmt::format("ld.global.b64 {}, [%in+{}];", word, from + i));
      w.line(fmt::format("st.param.b64 [argument+{}], {};", i, word));
    }
    w.line("call.uni (result), callee, (argument);");
    for (std::size_t i = 0; i < to.size(); ++i)
      w.line(fmt::format("ld.param.b{} {}, [result+{}];", bits, to[i], 8 * i));
    w.line("}");
  } else if (space == "const") {
    std::vector<std::string> bytes;
    for (std::uint32_t i = 0; i < window * threads; ++i) {
      w.kernel().constants.push_back(static_cast<std::uint8_t>(random()));
      bytes.push_back(std::to_string(w.kernel().constants.back()));
    }
    w.module(fmt::format(".const .align 64 .b8 table[{}] = {{{}}};", window * threads, fmt::join(bytes, ",")));
    const std::string address = w.fresh(64);
    w.line(fmt::format("mov.u64 {}, table;", address));
    w.line(fmt::format("mad.wide.u32 {}, %thread, {}, {};", address, window, address));
    w.line(fmt::format("{} {}, [{}+{}];", form.text, as_operand(to), address, offset));
  } else {
    Memory memory(w, form);
    const std::string address = memory.filled();
    w.line(fmt::format("{} {}, [{}+{}];", form.text, as_operand(to), address, offset));
  }
  store_results(w, to, bits);
  return w.finish();
}

MicroKernel store_form(const FormText& form, Random& random) {
  Writer w(form.text, threads, random);
  const std::string space = space_of(form);
  const int bits = register_bits(form, random);
  const std::uint32_t offset = some_offset(form, random);
  std::vector<std::string> from;
  for (int i = 0; i < form.vector_length(); ++i) from.push_back(w.input(bits, [&] { return random(); }));
  if (space == "param" || space == "func") {
    w.module(
        ".func (.param .align 64 .b8 back[64]) callee(.param .align 64 .b8 given[64]) {\n  .reg .b64 %x;\n"
        "  ld.param.b64 %x, [given]; st.param.b64 [back], %x; ld.param.b64 %x, [given+8]; st.param.b64 [back+8], %x;\n"
        "  ld.param.b64 %x, [given+16]; st.param.b64 [back+16], %x; ld.param.b64 %x, [given+24];\n"
        "  st.param.b64 [back+24], %x; ld.param.b64 %x, [given+32]; st.param.b64 [back+32], %x;\n"
        "  ld.param.b64 %x, [given+40]; st.param.b64 [back+40], %x; ld.param.b64 %x, [given+48];\n"
        "  st.param.b64 [back+48], %x; ld.param.b64 %x, [given+56]; st.param.b64 [back+56], %x;\n  ret;\n}");
    const std::string word = w.fresh(64);
    w.line("{ .param .align 64 .b8 argument[64]; .param .align 64 .b8 result[64];");
    for (std::uint32_t i = 0; i < window; i += 8) w.line(fmt::format("st.param.b64 [argument+{}], 0;", i));
    w.line(fmt::format("{} [argument+{}], {};", form.text, offset, as_operand(from)));
    w.line("call.uni (result), callee, (argument);");
    const std::uint32_t to = w.reserve_output(window, window);
    for (std::uint32_t i = 0; i < window; i += 8) {
      w.line(fmt::format("ld.param.b64 {}, [result+{}];", word, i));
      w.line(fmt::format("st.global.b64 [%out+{}], {};", to + i, word));
    }
    w.line("}");
    return w.finish();
  }
  Memory memory(w, form);
  const std::string address = memory.empty();
  if (space == "shared")
    for (std::uint32_t i = 0; i < window; i += 8) w.line(fmt::format("st.shared.b64 [{}+{}], 0;", address, i));
  const std::string guard = w.input_predicate([&] { return random() % 4 != 0; });
  w.line(fmt::format("@{} {} [{}+{}], {};", guard, form.text, address, offset, as_operand(from)));
  memory.copy_out(address);
  return w.finish();
}

// Every thread has a cell of its own, so that what it gets back is defined; integers are then combined by all threads
// in one cell as well, whose last value does not depend on the order.
MicroKernel atomic_form(const FormText& form, Random& random) {
  Writer w(form.text, threads, random);
  const std::string type = form.type();
  const bool integers = !is_float(type);
  const int bits = std::max(16, oracle::type_bits(type)), count = form.vector_length();
  const auto value = [&] {
    return is_float(type) && !type.starts_with("f16") ? tame_value(type, random) : any_value(type, random);
  };
  const bool shared = space_of(form) == "shared";

  std::vector<std::string> old_value, operand, compared;
  std::vector<std::uint64_t> cells;
  const std::string cell = w.fresh(shared ? 32 : 64);
  if (shared) {
    w.shared(".shared .align 64 .b8 cells[2048];");
    w.shared(".shared .align 64 .b8 common[64];");
    const std::string base = w.fresh(32);
    w.line(fmt::format("mov.u32 {}, cells;", base));
    w.line(fmt::format("mad.lo.u32 {}, %thread, {}, {};", cell, window, base));
  } else {
    w.line(fmt::format("mov.b64 {}, %out;", cell));
  }
  const std::uint32_t results = w.reserve_output(window, window);
  const std::string space = shared ? "shared" : "global";
  for (int i = 0; i < count; ++i) {
    const std::string initial = w.input(bits, value);
    w.line(fmt::format("st.{}.b{} [{}+{}], {};", space, bits, cell, i * bits / 8, initial));
    old_value.push_back(w.fresh(bits));
    operand.push_back(w.input(bits, value));
    if (form.has("cas")) {  // half of the comparisons hold
      const std::string guess = w.fresh(bits);
      const std::string hit = w.input_predicate([&] { return random() % 2 == 0; });
      w.line(fmt::format("selp.b{} {}, {}, {}, {};", bits, guess, initial, operand.back(), hit));
      compared.push_back(operand.back());
      operand.back() = guess;
    }
  }
  const std::string swap = form.has("cas") ? ", " + compared[0] : "";
  if (form.opcode == "atom") {
    w.line(fmt::format("{} {}, [{}], {}{};", form.text, as_operand(old_value), cell, as_operand(operand), swap));
    for (const std::string& reg : old_value) w.output(reg, bits, {0, type, {Tolerance::Kind::number}});
  } else {
    w.line(fmt::format("{} [{}], {};", form.text, cell, as_operand(operand)));
  }
  const std::string after = w.fresh(bits);
  for (int i = 0; i < count; ++i) {
    if (shared) {
      w.line(fmt::format("ld.shared.b{} {}, [{}+{}];", bits, after, cell, i * bits / 8));
      w.line(fmt::format("st.global.b{} [%out+{}], {};", bits, i * bits / 8, after));
    }
    w.kernel().fields.push_back({results + static_cast<std::uint32_t>(i * bits / 8), type, {Tolerance::Kind::number}});
  }
  if (integers && !form.has("cas") && !form.has("exch") && !form.has("inc") && !form.has("dec")) {
    const std::string common = w.fresh(shared ? 32 : 64);
    if (shared) {
      w.line(fmt::format("mov.u32 {}, common;", common));
      w.line(fmt::format("st.shared.b{} [{}], 0;", bits, common));
      w.line("bar.sync 0;");
    } else {
      w.line(fmt::format("ld.param.u64 {}, [results];", common));
      w.line(fmt::format("add.u64 {0}, {0}, 32;", common));
    }
    if (form.opcode == "atom")
      w.line(fmt::format("{} {}, [{}], {};", form.text, after, common, operand[0]));
    else
      w.line(fmt::format("{} [{}], {};", form.text, common, operand[0]));
    if (shared) {
      w.line("bar.sync 0;");
      w.line(fmt::format("ld.shared.b{} {}, [{}];", bits, after, common));
      w.output(after, bits, {0, "b" + std::to_string(bits), {}});
    }
  }
  return w.finish();
}

// Lane l of the tile's loader gives the address of row (l * 5) % 32: rows in no order.
MicroKernel matrix_form(const FormText& form, Random& random) {
  Writer w(form.text, threads, random);
  const int count = form.has("x4") ? 4 : form.has("x2") ? 2 : 1;
  w.shared(".shared .align 16 .b8 tile[1024];");
  const std::string base = w.fresh(32), mine = w.fresh(32), row = w.fresh(32), word = w.fresh(64);
  w.line(fmt::format("mov.u32 {}, tile;", base));
  w.line(fmt::format("mad.lo.u32 {}, %lane, 32, {};", mine, base));
  w.line(fmt::format("mul.lo.u32 {}, %lane, 5;", row));
  w.line(fmt::format("and.b32 {0}, {0}, 31;", row));
  w.line(fmt::format("mad.lo.u32 {0}, {0}, 32, {1};", row, base));
  const bool loads = form.opcode == "ldmatrix";
  const std::uint32_t from = w.reserve_input(32, [&] { return random(); });
  for (std::uint32_t i = 0; i < 32; i += 8) {
    w.line(fmt::format("ld.global.b64 {}, [%in+{}];", word, from + i));
    w.line(fmt::format("st.shared.b64 [{}+{}], {};", mine, i, word));
  }
  w.line("bar.sync 0;");
  std::string address = row;
  if (space_of(form).empty()) {  // a generic address
    address = w.fresh(64);
    w.line(fmt::format("cvt.u64.u32 {}, {};", address, row));
    w.line(fmt::format("cvta.shared.u64 {0}, {0};", address));
  }
  std::vector<std::string> registers;
  for (int i = 0; i < count; ++i) registers.push_back(loads ? w.fresh(32) : w.input(32, [&] { return random(); }));
  const std::string list = fmt::format("{{{}}}", fmt::join(registers, ", "));
  if (loads) {
    w.line(fmt::format("{} {}, [{}+16];", form.text, list, address));
    store_results(w, registers, 32);
    return w.finish();
  }
  w.line(fmt::format("{} [{}+16], {};", form.text, address, list));
  w.line("bar.sync 0;");
  for (std::uint32_t i = 0; i < 32; i += 8) {
    w.line(fmt::format("ld.shared.b64 {}, [{}+{}];", word, mine, i));
    w.output(word, 64, {0, "b64", {}});
  }
  return w.finish();
}

}  // namespace

std::string space_of(const FormText& form) {
  if (form.has("param::func")) return "func";
  for (const std::string& word : form.modifiers)
    for (const char* name : {"global", "shared", "local", "param", "const"})
      if (word == name || word.starts_with(std::string(name) + "::")) return name;
  return "";
}

std::optional<MicroKernel> memory_form(const FormText& form, Random& random) {
  if (form.opcode == "ld" || form.opcode == "ldu") return load_form(form, random);
  if (form.opcode == "st") return store_form(form, random);
  if (form.opcode == "atom" || form.opcode == "red") return atomic_form(form, random);
  if (form.opcode == "ldmatrix" || form.opcode == "stmatrix") return matrix_form(form, random);
  return std::nullopt;
}

}  // namespace flashmoe::vgpu::micro
