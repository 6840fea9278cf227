#include "vgpu/micro/form_text.hpp"

#include <algorithm>
#include <sstream>

#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::micro {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in{std::string(text)};
  while (std::getline(in, part, separator))
    if (!part.empty()) parts.push_back(part);
  return parts;
}

std::string twice_as_wide(const std::string& type) {
  return type.substr(0, 1) + std::to_string(2 * oracle::type_bits(type));
}

OperandText operand(const FormText& form, std::string text) {
  OperandText result;
  if (const std::size_t pair = text.find('|'); pair != std::string::npos) {
    result.has_pair = true;
    text = text.substr(0, pair);
  }
  if (text.ends_with('?')) {
    result.optional = true;
    text.pop_back();
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    result.field = result.kind = text;  // "call"
    return result;
  }
  result.field = text.substr(0, colon);
  std::string what = text.substr(colon + 1);
  if (result.field == "policy") {
    result.kind = "policy";
    return result;
  }
  if (const std::size_t inner = what.find(':'); inner != std::string::npos) {
    const std::string shape = what.substr(0, inner);
    what = what.substr(inner + 1);
    result.kind = shape == "pack" ? "pack" : "vector";
    result.length = shape == "v" ? form.vector_length() : shape == "pack" ? 1 : std::stoi(shape.substr(1));
    if (shape == "v" && result.length == 1) result.kind = "type";
  }
  if (what.ends_with('+')) {
    result.may_widen = true;
    what.pop_back();
  }
  if (what == "T") what = form.type(-1);
  if (what == "U") what = form.type(0);
  if (what == "W") what = twice_as_wide(form.type(-1));
  if (oracle::is_type(what) && what != "pred") {
    if (result.kind.empty()) result.kind = "type";
    result.type = what;
  } else {
    result.kind = what;
  }
  return result;
}

}  // namespace

bool FormText::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::string FormText::type(int n) const {
  std::vector<std::string> types;
  for (const std::string& word : modifiers)
    if (oracle::is_type(word)) types.push_back(word);
  const int at = n < 0 ? static_cast<int>(types.size()) + n : n;
  return at < 0 || at >= static_cast<int>(types.size()) ? "" : types[static_cast<std::size_t>(at)];
}

int FormText::vector_length() const {
  for (const int length : {2, 4, 8})
    if (has("v" + std::to_string(length))) return length;
  return 1;
}

FormText take_apart(const std::string& form, std::string_view operands) {
  FormText result;
  result.text = form;
  result.modifiers = split(form, '.');
  result.opcode = result.modifiers.front();
  result.modifiers.erase(result.modifiers.begin());
  for (const std::string& text : split(operands, ' ')) result.operands.push_back(operand(result, text));
  return result;
}

}  // namespace flashmoe::vgpu::micro
