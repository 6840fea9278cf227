#include "vgpu/ir/wmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::ir {
namespace {

struct Element {
  std::string_view type;
  int bytes;
};
constexpr Element inputs[] = {{"f16", 2}, {"bf16", 2}, {"tf32", 4}, {"s8", 1}, {"u8", 1}, {"f64", 8}};
constexpr Element sums[] = {{"f16", 2}, {"f32", 4}, {"s32", 4}, {"f64", 8}};

// As mma.sync sees it, a block is 16 x 8 x k (of f64 8 x 8 x 4). `is_transposed`: A and B change places.
struct Shape {
  std::string_view name;
  int m, n, k;
  std::string_view block;
  bool is_transposed = false;
  [[nodiscard]] int block_rows() const { return k == 4 ? 8 : 16; }
  [[nodiscard]] int rows() const { return is_transposed ? n : m; }
  [[nodiscard]] int columns() const { return is_transposed ? m : n; }
  [[nodiscard]] int row_blocks() const { return rows() / block_rows(); }
  [[nodiscard]] int column_blocks() const { return columns() / 8; }
};
constexpr Shape shapes[] = {{"m16n16k16", 16, 16, 16, "m16n8k16"},
                            {"m32n8k16", 32, 8, 16, "m16n8k16"},
                            {"m8n32k16", 8, 32, 16, "m16n8k16", true},
                            {"m16n16k8", 16, 16, 8, "m16n8k8"},
                            {"m8n8k4", 8, 8, 4, "m8n8k4"}};

bool is_input_of(const Shape& shape, std::string_view type) {
  if (shape.k == 4) return type == "f64";
  if (shape.k == 8) return type == "tf32";
  return type != "f64" && type != "tf32";
}

const Element* found_in(std::span<const Element> elements, std::string_view type) {
  const auto found =
      std::find_if(elements.begin(), elements.end(), [&](const Element& one) { return one.type == type; });
  return found == elements.end() ? nullptr : &*found;
}

const Shape* shape_in(const std::vector<std::string>& modifiers) {
  for (const Shape& shape : shapes)
    if (std::find(modifiers.begin(), modifiers.end(), shape.name) != modifiers.end()) return &shape;
  return nullptr;
}

std::vector<std::string> names(const ptx::Operand& operand) {
  std::vector<std::string> result;
  const auto name = [](const ptx::Operand& one) { return one.name.empty() ? one.text : one.name; };
  if (operand.kind != ptx::Operand::Kind::vector) return {name(operand)};
  for (const ptx::Operand& part : operand.parts) result.push_back(name(part));
  return result;
}

// A fragment's registers and where each of their elements lies: `along` is the index that mma.sync counts in eights
// over lanes / 4, `across` the one over lanes % 4. One of the two is a multiple of the stride in memory.
struct Word {
  int along = 0, across = 0;  // beside the lane's own
};
struct Fragment {
  const Element* element = nullptr;
  int per_word = 1;         // elements in a register, neighbours across
  int across_per_lane = 1;  // by which neighbouring lanes are apart
  bool along_has_stride{};  // else across has it
  int default_stride = 0;
  std::vector<Word> words{};
  std::size_t registers = 0;  // as many as the manual says: the words again and again
};

// `is_first`: of mma.sync's own A; else B.
Fragment input_fragment(const Shape& shape, const Element& element, bool is_a, bool is_row) {
  Fragment fragment{.element = &element};
  const bool is_first = is_a != shape.is_transposed;
  fragment.per_word = element.bytes == 8 ? 1 : 4 / element.bytes;
  fragment.across_per_lane = fragment.per_word;
  fragment.along_has_stride = is_a == is_row;  // k is across
  fragment.default_stride = is_a == is_row ? shape.k : is_a ? shape.m : shape.n;
  const int run = 4 * fragment.per_word, blocks = is_first ? shape.row_blocks() : shape.column_blocks();
  const int eights = is_first ? shape.block_rows() / 8 : 1;
  for (int block = 0; block < blocks; ++block)
    for (int k = 0; k < shape.k; k += run)
      for (int eight = 0; eight < eights; ++eight) fragment.words.push_back({8 * (eights * block + eight), k});
  fragment.registers = element.type == "f16" ? 8 : fragment.words.size();
  return fragment;
}

Fragment sum_fragment(const Shape& shape, const Element& element, bool is_row) {
  Fragment fragment{.element = &element};
  fragment.per_word = element.bytes == 2 ? 2 : 1;
  fragment.across_per_lane = 2;
  fragment.along_has_stride = is_row != shape.is_transposed;
  fragment.default_stride = is_row ? shape.n : shape.m;
  for (int row = 0; row < shape.row_blocks(); ++row)
    for (int column = 0; column < shape.column_blocks(); ++column)
      for (int eight = 0; eight < shape.block_rows() / 8; ++eight)
        for (int pair = 0; pair < 2; pair += fragment.per_word)
          fragment.words.push_back({shape.block_rows() * row + 8 * eight, 8 * column + pair});
  fragment.registers = fragment.words.size();
  return fragment;
}

// Text of PTX, to be parsed: what it says is what runs.
class Writer {
 public:
  template <class... Values>
  void line(fmt::format_string<Values...> text, Values&&... values) {
    text_ += fmt::format(text, std::forward<Values>(values)...) + ";\n";
  }
  std::string fresh(std::string_view type) {
    std::string name = fmt::format("%wmma_{}", next_++);
    line(".reg .{} {}", type, name);
    return name;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_{};
  int next_ = 0;
};

// Pointers into a matrix in memory, one for each multiple of the stride, made when it is first asked for.
class Pointers {
 public:
  Pointers(Writer& out, const Fragment& fragment, const ptx::Operand& address, const std::string& stride, int bits)
      : out_(out), fragment_(fragment), stride_(out.fresh("b32")), bits_(bits) {
    const std::string base = pointer(), lane = out.fresh("b32"), along = out.fresh("b32"), across = out.fresh("b32"),
                      index = out.fresh("b32");
    out.line("mov.u{} {}, {}", bits_, base, address.name.empty() ? "0" : address.name);
    out.line("add.s{} {}, {}, {}", bits_, base, base, address.offset);
    out.line("mov.u32 {}, {}", stride_, stride);
    out.line("mov.u32 {}, %laneid", lane);
    out.line("shr.u32 {}, {}, 2", along, lane);
    out.line("and.b32 {}, {}, 3", across, lane);
    out.line("mul.lo.u32 {}, {}, {}", across, across, fragment.across_per_lane);
    out.line("mad.lo.u32 {}, {}, {}, {}", index, fragment.along_has_stride ? along : across, stride_,
             fragment.along_has_stride ? across : along);
    pointers_[0] = moved(base, index, fragment.element->bytes);
  }
  // "p + 32", of the element at these places beside the lane's own.
  std::string at(int along, int across) {
    const int strides = fragment_.along_has_stride ? along : across;
    auto [known, is_new] = pointers_.try_emplace(strides);
    if (is_new) known->second = moved(pointers_.at(0), stride_, strides * fragment_.element->bytes);
    return fmt::format("{}+{}", known->second,
                       (fragment_.along_has_stride ? across : along) * fragment_.element->bytes);
  }

 private:
  std::string pointer() { return out_.fresh(bits_ == 64 ? "b64" : "b32"); }
  std::string moved(const std::string& from, const std::string& by, int bytes) {
    std::string to = pointer();
    out_.line("mad.{}.u32 {}, {}, {}, {}", bits_ == 64 ? "wide" : "lo", to, by, bytes, from);
    return to;
  }
  Writer& out_;
  const Fragment& fragment_;
  std::string stride_;
  int bits_;
  std::map<int, std::string> pointers_{};
};

// Each register's elements from memory or to it: at once where they are neighbours there, else one by one.
void load(Writer& out, const Fragment& fragment, Pointers& pointers, const std::string& from,
          const std::vector<std::string>& registers) {
  const int bits = 8 * fragment.element->bytes * fragment.per_word;
  for (std::size_t i = 0; i < fragment.words.size(); ++i) {
    const auto [along, across] = fragment.words[i];
    if (fragment.per_word == 1 || fragment.along_has_stride) {
      out.line("{}.b{} {}, [{}]", from, bits, registers[i], pointers.at(along, across));
      continue;
    }
    const std::string sum = out.fresh("b32"), part = out.fresh("b32");
    for (int j = 0; j < fragment.per_word; ++j) {
      const int element_bits = 8 * fragment.element->bytes;
      out.line("{}.u{} {}, [{}]", from, element_bits, j == 0 ? sum : part, pointers.at(along, across + j));
      if (j != 0) {
        out.line("shl.b32 {}, {}, {}", part, part, j * element_bits);
        out.line("or.b32 {}, {}, {}", sum, sum, part);
      }
    }
    out.line("mov.b32 {}, {}", registers[i], sum);
  }
  for (std::size_t i = fragment.words.size(); i < registers.size(); ++i)
    out.line("mov.b32 {}, {}", registers[i], registers[i % fragment.words.size()]);
}

void store(Writer& out, const Fragment& fragment, Pointers& pointers, const std::string& to,
           const std::vector<std::string>& registers) {
  const int bits = 8 * fragment.element->bytes * fragment.per_word;
  for (std::size_t i = 0; i < fragment.words.size(); ++i) {
    const auto [along, across] = fragment.words[i];
    if (fragment.per_word == 1 || fragment.along_has_stride) {
      out.line("{}.b{} [{}], {}", to, bits, pointers.at(along, across), registers[i]);
      continue;
    }
    const std::string low = out.fresh("b16"), high = out.fresh("b16");  // two of f16
    out.line("mov.b32 {{{}, {}}}, {}", low, high, registers[i]);
    out.line("{}.b16 [{}], {}", to, pointers.at(along, across), low);
    out.line("{}.b16 [{}], {}", to, pointers.at(along, across + 1), high);
  }
}

bool move_matrix(Writer& out, const ptx::Instruction& instruction, const Shape& shape, int address_bits) {
  // wmma.load.a.sync.aligned.row.m16n16k16{.global}.f16
  const std::vector<std::string>& modifiers = instruction.modifiers;
  const bool loads = modifiers[0] == "load";
  const std::size_t operands = instruction.operands.size();
  if (modifiers.size() < 7 || modifiers.size() > 8 || operands < 2 || operands > 3) return false;
  const std::string &which = modifiers[1], &layout = modifiers[4], &type = modifiers.back();
  if ((layout != "row" && layout != "col") || modifiers[5] != shape.name) return false;
  const bool is_input = which == "a" || which == "b", is_row = layout == "row";
  if (loads ? !is_input && which != "c" : which != "d") return false;
  const Element* const element = is_input ? found_in(inputs, type) : found_in(sums, type);
  if (element == nullptr || (is_input && !is_input_of(shape, type))) return false;
  const Fragment fragment =
      is_input ? input_fragment(shape, *element, which == "a", is_row) : sum_fragment(shape, *element, is_row);
  const ptx::Operand& address = instruction.operands[loads ? 1 : 0];
  const std::vector<std::string> registers = names(instruction.operands[loads ? 0 : 1]);
  if (address.kind != ptx::Operand::Kind::address || registers.size() != fragment.registers) return false;
  const std::string stride =
      operands == 3 ? names(instruction.operands[2])[0] : std::to_string(fragment.default_stride);
  const std::string space = modifiers.size() == 8 ? "." + modifiers[6] : "";
  Pointers pointers(out, fragment, address, stride, address_bits);
  if (loads)
    load(out, fragment, pointers, "ld" + space, registers);
  else
    store(out, fragment, pointers, "st" + space, registers);
  return true;
}

// wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 of f16; .s32.s8.s8.s32{.satfinite}, .f32.bf16.bf16.f32 of others.
bool multiply(Writer& out, const ptx::Instruction& instruction, const Shape& shape) {
  std::vector<std::string> types(instruction.modifiers.begin() + 6, instruction.modifiers.end());
  std::string clamp;
  if (!types.empty() && types.back() == "satfinite") {
    clamp = ".satfinite";
    types.pop_back();
  }
  std::erase(types, "rn");  // of f64, which rounds no other way: in front by the manual, behind by nvcc
  if (types.size() == 2) types = {types[0], "f16", "f16", types[1]};
  if (types.size() != 4 || types[0] != types[3] || instruction.operands.size() != 4) return false;
  const Element *a = found_in(inputs, types[1]), *b = found_in(inputs, types[2]);
  const Element* const sum = found_in(sums, types[0]);
  if (a == nullptr || b == nullptr || sum == nullptr || !is_input_of(shape, a->type) || !is_input_of(shape, b->type))
    return false;
  const Fragment fragment_a = input_fragment(shape, *a, true, true),
                 fragment_b = input_fragment(shape, *b, false, true), fragment_d = sum_fragment(shape, *sum, true);
  std::vector<std::string> of_d = names(instruction.operands[0]), of_a = names(instruction.operands[1]),
                           of_b = names(instruction.operands[2]), of_c = names(instruction.operands[3]);
  if (of_d.size() != fragment_d.registers || of_a.size() != fragment_a.registers ||
      of_b.size() != fragment_b.registers || of_c.size() != fragment_d.registers)
    return false;
  of_a.resize(fragment_a.words.size());
  of_b.resize(fragment_b.words.size());
  if (shape.is_transposed) {
    std::swap(of_a, of_b);
    std::swap(a, b);
  }
  // A block's result must not be in the way of the next one's operands.
  std::vector<std::string> results;
  for (std::size_t i = 0; i < of_d.size(); ++i) results.push_back(out.fresh(sum->bytes == 8 ? "b64" : "b32"));
  const auto part = [](const std::vector<std::string>& all, int index, int count) {
    const std::size_t length = all.size() / static_cast<std::size_t>(count);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(length * static_cast<std::size_t>(index));
    return fmt::format("{}", fmt::join(first, first + static_cast<std::ptrdiff_t>(length), ", "));
  };
  const int blocks = shape.row_blocks() * shape.column_blocks();
  for (int block = 0; block < blocks; ++block) {
    const int row = block / shape.column_blocks(), column = block % shape.column_blocks();
    out.line("mma.sync.aligned.{}.row.col{}.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}}", shape.block, clamp, types[0],
             a->type, b->type, types[3], part(results, block, blocks), part(of_a, row, shape.row_blocks()),
             part(of_b, column, shape.column_blocks()), part(of_c, block, blocks));
  }
  for (std::size_t i = 0; i < of_d.size(); ++i)
    out.line("mov.b{} {}, {}", sum->bytes == 8 ? 64 : 32, of_d[i], results[i]);
  return true;
}

}  // namespace

std::optional<ptx::Block> expanded_wmma(const ptx::Instruction& instruction, int address_bits) {
  const std::vector<std::string>& modifiers = instruction.modifiers;
  const Shape* const shape = shape_in(modifiers);
  if (shape == nullptr || modifiers.size() < 7) return std::nullopt;
  Writer out;
  const bool is_known =
      modifiers[0] == "mma" ? multiply(out, instruction, *shape) : move_matrix(out, instruction, *shape, address_bits);
  if (!is_known) return std::nullopt;
  auto parsed =
      ptx::parse(".version 9.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n" + out.text() + "}\n", "wmma");
  if (!parsed) return std::nullopt;
  ptx::Block block = std::move(parsed->functions.at(0).body);
  for (ptx::Statement& statement : block.statements) {
    auto* const one = std::get_if<ptx::Instruction>(&statement.what);
    if (one == nullptr) continue;
    one->guard = instruction.guard;
    one->at = instruction.at;
    one->source = instruction.source;
  }
  return block;
}

}  // namespace flashmoe::vgpu::ir
