#include "predict/sass.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace flashmoe::predict {
namespace {

constexpr std::string_view blanks = " \t\r";
constexpr std::size_t instruction_bytes = 16;

std::string_view without_blanks_before(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text;
}

std::string_view without_blanks(std::string_view text) {
  text = without_blanks_before(text);
  const std::size_t last = text.find_last_not_of(blanks);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

bool starts_with_take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// All of the text, or nothing.
template <class Number>
std::optional<Number> number(std::string_view text, int base) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// "/* 0x000fe400078e00ff */", to the end of the line.
std::optional<std::uint64_t> hex_word(std::string_view text) {
  text = without_blanks(text);
  if (!starts_with_take(text, "/*") || !text.ends_with("*/")) return {};
  text.remove_suffix(2);
  text = without_blanks(text);
  if (!starts_with_take(text, "0x")) return {};
  return number<std::uint64_t>(text, 16);
}

Control control_of(std::uint64_t high_word) {
  const auto bits = [&](int first, int count) {
    return static_cast<std::uint8_t>((high_word >> first) & ((1U << count) - 1));
  };
  return {.stall = bits(41, 4),
          .yield = bits(45, 1) == 0,
          .write_barrier = bits(46, 3),
          .read_barrier = bits(49, 3),
          .wait_mask = bits(52, 6),
          .reuse = bits(58, 4)};
}

// At commas outside brackets: "DEPBAR.LE SB0, 0x1, {2,1}" has three.
std::vector<std::string> operands_of(std::string_view text) {
  std::vector<std::string> operands;
  int depth = 0;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end) {
    if (const auto one = without_blanks(text.substr(begin, end - begin)); !one.empty()) operands.emplace_back(one);
    begin = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{' || c == '(') ++depth;
    if (c == ']' || c == '}' || c == ')') --depth;
    if (c == ',' && depth <= 0) add(i);
  }
  add(text.size());
  return operands;
}

// What stands between "`(" and ")" in the last operand that has it.
std::string_view label_of(const SassInstruction& instruction) {
  for (auto operand = instruction.operands.rbegin(); operand != instruction.operands.rend(); ++operand) {
    const std::string_view text = *operand;
    const std::size_t begin = text.find("`(");
    const std::size_t end = text.find(')', begin);
    if (begin != std::string_view::npos && end != std::string_view::npos)
      return text.substr(begin + 2, end - begin - 2);
  }
  return {};
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  Result<std::vector<SassKernel>> parse() {
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      line_text_ = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++line_;
      if (const auto done = read_line(); !done) return done.error();
    }
    if (const auto done = end_section(); !done) return done.error();
    if (kernels_.empty())
      return failure("no code section", "print a cubin that has kernels: nvdisasm -c -hex FILE.cubin");
    return std::move(kernels_);
  }

 private:
  Result<Done> read_line() {
    std::string_view text = without_blanks(line_text_);
    if (half_read_) return read_second_word(text);
    if (text.empty()) return Done{};
    if (starts_with_take(text, ".target")) {
      target_ = without_blanks(text);
      return Done{};
    }
    if (starts_with_take(text, ".headerflags")) {  // cubins from before CUDA 13: "... EF_CUDA_SM86 ..."
      constexpr std::string_view word = "EF_CUDA_SM";
      text.remove_prefix(std::min(text.find(word), text.size()));
      if (starts_with_take(text, word))
        target_ = "sm_" + std::string(text.substr(0, text.find_first_not_of("0123456789")));
      return Done{};
    }
    if (starts_with_take(text, ".section\t") || starts_with_take(text, ".section ")) {  // .sectioninfo is another one
      if (auto done = end_section(); !done) return done;
      text = without_blanks_before(text);
      if (starts_with_take(text, ".text.")) return begin_section(text.substr(0, text.find_first_of(", \t")));
      in_code_ = false;
      return Done{};
    }
    if (!in_code_) return Done{};
    if (starts_with_take(text, "//## File")) return read_source_line(text);
    if (text.starts_with("/*")) return read_instruction(text);
    if (text.ends_with(':')) return read_label(text.substr(0, text.size() - 1));
    return Done{};  // directives and comments
  }

  Result<Done> begin_section(std::string_view name) {
    if (name.empty()) return failure("a code section without a name");
    if (target_.empty())
      return failure("no .target before the code", "print the whole cubin: nvdisasm -c -hex FILE.cubin");
    kernels_.push_back({.name = std::string(name), .architecture = target_});
    labels_.clear();
    in_code_ = true;
    ptx_line_ = 0;
    return Done{};
  }

  // Labels may stand after the branches that name them, and name functions of other sections: those have no index here.
  Result<Done> end_section() {
    if (half_read_) return failure("the second half of the instruction above is missing", hex_advice);
    if (!in_code_) return Done{};
    auto& instructions = kernels_.back().instructions;
    for (SassInstruction& instruction : instructions)
      if (const auto found = labels_.find(label_of(instruction)); found != labels_.end())
        if (found->second < instructions.size()) instruction.target = found->second;
    if (instructions.empty()) kernels_.pop_back();
    in_code_ = false;
    return Done{};
  }

  Result<Done> read_label(std::string_view name) {
    labels_[name] = static_cast<std::uint32_t>(kernels_.back().instructions.size());
    return Done{};
  }

  // 'File ".nv_debug_ptx_txt", line 21'. Of several in a row the first is where the instruction stands, the others are
  // the calls that it was inlined through.
  Result<Done> read_source_line(std::string_view text) {
    if (line_is_fresh_) return Done{};
    constexpr std::string_view word = ", line ";
    const std::size_t begin = text.find(word);
    if (begin == std::string_view::npos) return failure("a source line without its number");
    text.remove_prefix(begin + word.size());
    const auto line = number<std::uint32_t>(text.substr(0, text.find_first_not_of("0123456789")), 10);
    if (!line) return failure("a source line without its number");
    ptx_line_ = *line;
    line_is_fresh_ = true;
    return Done{};
  }

  // '/*0010*/  @P0 BRA `(.L_x_1) ;  /* 0x0000000000007947 */'
  Result<Done> read_instruction(std::string_view text) {
    text.remove_prefix(2);
    const std::size_t address_end = text.find("*/");
    if (address_end == std::string_view::npos) return failure("an address that does not end");
    const auto address = number<std::uint32_t>(text.substr(0, address_end), 16);
    auto& instructions = kernels_.back().instructions;
    if (!address || *address != instructions.size() * instruction_bytes)
      return failure("expected the instruction at byte " + std::to_string(instructions.size() * instruction_bytes) +
                         " of " + kernels_.back().name,
                     "sm_70 and newer have 16 bytes an instruction");
    text = without_blanks_before(text.substr(address_end + 2));

    SassInstruction instruction{.address = *address, .ptx_line = ptx_line_};
    line_is_fresh_ = false;
    const std::size_t semicolon = text.find(';');
    if (semicolon == std::string_view::npos) return failure("an instruction without its semicolon");
    std::string_view code = without_blanks(text.substr(0, semicolon));
    if (code.starts_with('@')) {
      const std::size_t end = std::min(code.find_first_of(blanks), code.size());
      instruction.guard = code.substr(0, end);
      code = without_blanks_before(code.substr(end));
    }
    const std::size_t opcode_end = std::min(code.find_first_of(blanks), code.size());
    instruction.opcode = code.substr(0, opcode_end);
    if (instruction.opcode.empty() || instruction.opcode[0] < 'A' || instruction.opcode[0] > 'Z')
      return failure("an instruction without its opcode");
    instruction.operands = operands_of(code.substr(opcode_end));
    if (!hex_word(text.substr(semicolon + 1)))
      return failure("an instruction without its hexadecimal word", hex_advice);
    instructions.push_back(std::move(instruction));
    half_read_ = true;
    return Done{};
  }

  Result<Done> read_second_word(std::string_view text) {
    const auto word = hex_word(text);
    if (!word) return failure("the second half of the instruction above is missing", hex_advice);
    kernels_.back().instructions.back().control = control_of(*word);
    half_read_ = false;
    return Done{};
  }

  [[nodiscard]] Diagnostic failure(std::string message, std::string fix = {}) const {
    const std::size_t column = std::min(line_text_.find_first_not_of(blanks), line_text_.size());
    return {.message = std::move(message),
            .fix = std::move(fix),
            .file = file_,
            .line = std::max(line_, 1),
            .column = static_cast<int>(column) + 1};
  }

  static constexpr const char* hex_advice = "the control bits are in it: nvdisasm -c -hex FILE.cubin";

  std::string_view rest_;
  const std::string& file_;
  std::string_view line_text_{};
  int line_ = 0;
  std::string target_{};
  bool in_code_ = false;
  bool half_read_ = false;      // the first word of an instruction was read, the second comes on the next line
  bool line_is_fresh_ = false;  // a source line was read and no instruction since
  std::uint32_t ptx_line_ = 0;
  std::unordered_map<std::string_view, std::uint32_t> labels_{};
  std::vector<SassKernel> kernels_{};
};

}  // namespace

bool SassInstruction::has(std::string_view modifier) const {
  for (std::size_t dot = opcode.find('.'); dot != std::string::npos;) {
    const std::size_t end = opcode.find('.', dot + 1);
    if (std::string_view(opcode).substr(dot + 1, end == std::string::npos ? end : end - dot - 1) == modifier)
      return true;
    dot = end;
  }
  return false;
}

Result<std::vector<SassKernel>> parse_sass(std::string_view text, const std::string& file) {
  return Parser(text, file).parse();
}

}  // namespace flashmoe::predict
