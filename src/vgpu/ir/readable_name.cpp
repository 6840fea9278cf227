#include "vgpu/ir/readable_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "support/text.hpp"

namespace flashmoe::vgpu::ir {
namespace {

// "f[abi:v1][abi:cw51c]" -> "f": numba writes version and types of a function there.
void erase_tags(std::string& text) {
  for (std::size_t at = text.find("[abi:"); at != std::string::npos; at = text.find("[abi:", at))
    text.erase(at, text.find(']', at) - at + 1);
}

// "void f<(int)3>(float*)" -> "f<(int)3>": neither the arguments nor the type of a template's result.
std::string name_alone(const std::string& text) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (depth != 0) continue;
    if (text[i] == '(') return text.substr(begin, i - begin);
    if (text[i] == ' ') begin = i + 1;
  }
  return text.substr(begin);
}

bool may_be_in_symbol(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.';
}

}  // namespace

std::string readable_name(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::string(symbol);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || plain == nullptr) return std::string(symbol);
  std::string text = replaced_all(plain.get(), "(anonymous namespace)::", "");
  erase_tags(text);
  text = name_alone(text);
  // A unit that nvcc made up.
  if (text.starts_with("_INTERNAL_")) text.erase(0, text.find("::") + 2);
  return text.empty() ? std::string(symbol) : text;
}

std::string readable_names(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = text.substr(at).starts_with("_Z") && (at == 0 || !may_be_in_symbol(text[at - 1]));
    if (!begins) {
      out += text[at++];
      continue;
    }
    const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), may_be_in_symbol);
    const auto length = static_cast<std::size_t>(end - text.begin()) - at;
    out += readable_name(text.substr(at, length));
    at += length;
  }
  return out;
}

}  // namespace flashmoe::vgpu::ir
