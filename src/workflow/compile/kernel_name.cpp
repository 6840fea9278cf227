#include "workflow/compile/kernel_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include "support/text.hpp"

namespace flashmoe::workflow {
namespace {

bool part_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Splits at `separator` outside of any brackets.
std::vector<std::string> split_outside(std::string_view text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == ']') --depth;
    if (c == separator && depth == 0) {
      parts.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (!trimmed(text.substr(begin)).empty() || !parts.empty()) parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

// One form for what C++ lets people write in several ways. On the machines this runs on, long has 64 bits.
constexpr std::array<std::pair<std::string_view, std::string_view>, 32> aliases{{
    {"half", "__half"},
    {"half2", "__half2"},
    {"nv_bfloat16", "__nv_bfloat16"},
    {"nv_bfloat162", "__nv_bfloat162"},
    {"unsigned", "unsigned int"},
    {"signed", "int"},
    {"short int", "short"},
    {"unsigned short int", "unsigned short"},
    {"long int", "long"},
    {"unsigned long int", "unsigned long"},
    {"long long int", "long long"},
    {"unsigned long long int", "unsigned long long"},
    {"int8_t", "signed char"},
    {"uint8_t", "unsigned char"},
    {"int16_t", "short"},
    {"uint16_t", "unsigned short"},
    {"int32_t", "int"},
    {"uint32_t", "unsigned int"},
    {"int64_t", "long"},
    {"uint64_t", "unsigned long"},
    {"size_t", "unsigned long"},
    {"std::int8_t", "signed char"},
    {"std::uint8_t", "unsigned char"},
    {"std::int16_t", "short"},
    {"std::uint16_t", "unsigned short"},
    {"std::int32_t", "int"},
    {"std::uint32_t", "unsigned int"},
    {"std::int64_t", "long"},
    {"std::uint64_t", "unsigned long"},
    {"std::size_t", "unsigned long"},
    {"uint", "unsigned int"},
    {"ushort", "unsigned short"},
}};

// Types that hold the same bits, so that a kernel for one looks like a kernel for the other, under another symbol.
constexpr std::array<std::array<std::string_view, 4>, 4> lookalikes{{
    {"__half", "c10::Half", "at::Half", "_Float16"},
    {"__nv_bfloat16", "c10::BFloat16", "at::BFloat16", "__bf16"},
    {"long", "long long", "", ""},
    {"unsigned long", "unsigned long long", "", ""},
}};

bool look_alike(const std::string& a, const std::string& b) {
  return std::any_of(lookalikes.begin(), lookalikes.end(), [&](const auto& family) {
    return std::find(family.begin(), family.end(), a) != family.end() &&
           std::find(family.begin(), family.end(), b) != family.end();
  });
}

// "256u", "0x100" -> "256"
std::optional<std::string> as_integer(const std::string& text) {
  std::string digits = text;
  while (!digits.empty() && std::string_view("uUlL").find(digits.back()) != std::string_view::npos) digits.pop_back();
  const bool hex = digits.rfind("0x", 0) == 0 || digits.rfind("0X", 0) == 0;
  const char* begin = digits.data() + (hex ? 2 : 0);
  const char* end = digits.data() + digits.size();
  long long value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
  if (error != std::errc{} || stop != end || begin == end) return std::nullopt;
  return std::to_string(value);
}

std::string one_form(const std::string& argument);

// "foo<half>" -> "foo<__half>"; text outside the brackets stays.
std::string with_inner_forms(const std::string& text) {
  const auto open = text.find('<');
  const auto close = text.rfind('>');
  if (open == std::string::npos || close == std::string::npos || close < open) return text;
  std::string inner;
  for (const std::string& part : split_outside(std::string_view(text).substr(open + 1, close - open - 1), ','))
    inner += (inner.empty() ? "" : ", ") + one_form(part);
  return text.substr(0, open) + "<" + inner + ">" + text.substr(close + 1);
}

std::string one_form(const std::string& argument) {
  std::string text;
  for (char c : trimmed(argument)) {
    // A space matters only between two words.
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (!text.empty() && text.back() != ' ') text += ' ';
      continue;
    }
    if (!text.empty() && text.back() == ' ' &&
        (!part_of_word(c) || text.size() < 2 || !part_of_word(text[text.size() - 2])))
      text.pop_back();
    text += c;
  }
  if (const auto integer = as_integer(text)) return *integer;
  text = with_inner_forms(text);
  // The demangler writes const after what it belongs to.
  std::string suffix;
  while (!text.empty() && (text.back() == '*' || text.back() == '&')) {
    suffix.insert(suffix.begin(), text.back());
    text.pop_back();
  }
  bool constant = false;
  if (text.rfind("const ", 0) == 0) {
    constant = true;
    text = text.substr(6);
  } else if (text.size() > 6 && text.compare(text.size() - 6, 6, " const") == 0) {
    constant = true;
    text.resize(text.size() - 6);
  }
  for (const auto& [from, to] : aliases)
    if (text == from) {
      text = to;
      break;
    }
  return text + (constant ? " const" : "") + suffix;
}

// Every whole word of `text` that has a replacement.
std::string with_words_replaced(const std::string& text,
                                const std::vector<std::pair<std::string, std::string>>& replacements) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (!part_of_word(text[i])) {
      result += text[i++];
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && part_of_word(text[end])) ++end;
    std::string word = text.substr(i, end - i);
    for (const auto& [from, to] : replacements)
      if (word == from) {
        word = to;
        break;
      }
    result += word;
    i = end;
  }
  return result;
}

std::size_t matching_close(const std::string& text, std::size_t open, char opening, char closing) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing && --depth == 0) return i;
  }
  return std::string::npos;
}

// "class T, int N = 64" -> {"T", "N"}
std::vector<std::string> template_parameter_names(const std::string& list) {
  std::vector<std::string> names;
  for (std::string one : split_outside(list, ',')) {
    one = trimmed(one.substr(0, one.find('=')));
    std::size_t begin = one.size();
    while (begin > 0 && part_of_word(one[begin - 1])) --begin;
    names.push_back(one.substr(begin));
  }
  return names;
}

std::size_t equal_arguments(const KernelName& a, const KernelName& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < std::min(a.arguments.size(), b.arguments.size()); ++i)
    equal += a.arguments[i] == b.arguments[i] ? 1 : 0;
  return equal;
}

}  // namespace

std::string last_part(const std::string& name) {
  const auto at = name.rfind("::");
  return at == std::string::npos ? name : name.substr(at + 2);
}

std::string KernelName::to_string() const {
  return arguments.empty() ? base : fmt::format("{}<{}>", base, fmt::join(arguments, ", "));
}

KernelName parse_kernel_name(const std::string& text) {
  // The demangler's one bracket that is part of a name.
  std::string name = text;
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (auto at = name.find(anonymous); at != std::string::npos; at = name.find(anonymous))
    name.erase(at, anonymous.size());
  KernelName parsed;
  int depth = 0;
  std::size_t end = name.size();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == ' ' && i + 1 < name.size() && name[i + 1] != '<' && name[i + 1] != '(') begin = i + 1;
    if (depth == 0 && name[i] == '(') {
      end = i;
      const auto close = name.rfind(')');
      if (close != std::string::npos && close > i) parsed.parameters = trimmed(name.substr(i + 1, close - i - 1));
      break;
    }
  }
  name = trimmed(std::string_view(name).substr(begin, end > begin ? end - begin : 0));
  const auto open = name.find('<');
  parsed.base = trimmed(name.substr(0, open));
  if (open != std::string::npos && name.back() == '>')
    for (const std::string& argument :
         split_outside(std::string_view(name).substr(open + 1, name.size() - open - 2), ','))
      parsed.arguments.push_back(one_form(argument));
  return parsed;
}

const CubinKernel* find_kernel(const Cubin& cubin, const std::string& declared) {
  const KernelName wanted = parse_kernel_name(declared);
  const CubinKernel* elsewhere = nullptr;
  int elsewhere_count = 0;
  for (const CubinKernel& kernel : cubin.kernels) {
    const KernelName name = parse_kernel_name(kernel.demangled);
    if (name == wanted) return &kernel;
    if (last_part(name.base) == wanted.base && name.arguments == wanted.arguments) {
      elsewhere = &kernel;
      ++elsewhere_count;
    }
  }
  return elsewhere_count == 1 ? elsewhere : nullptr;
}

std::optional<std::string> instantiation_line(const std::string& text, const KernelName& name) {
  const std::string word = last_part(name.base);
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at > 0 && part_of_word(text[at - 1])) ||
        (at + word.size() < text.size() && part_of_word(text[at + word.size()])))
      continue;
    const auto open = text.find_first_not_of(" \t\r\n", at + word.size());
    if (open == std::string::npos || text[open] != '(') continue;
    const auto global = text.rfind("__global__", at);
    const auto close = matching_close(text, open, '(', ')');
    if (global == std::string::npos || close == std::string::npos) continue;
    // A declaration, not something further up: nothing may end between __global__ and the name.
    if (text.substr(global, at - global).find_first_of(";{}") != std::string::npos) continue;
    const auto keyword = text.rfind("template", global);
    if (keyword == std::string::npos ||
        text.substr(keyword, global - keyword).find_first_of(";{}") != std::string::npos)
      continue;
    const auto list = text.find('<', keyword);
    const auto list_end = list == std::string::npos ? list : matching_close(text, list, '<', '>');
    if (list_end == std::string::npos || list_end > at) continue;
    const auto names = template_parameter_names(text.substr(list + 1, list_end - list - 1));
    std::vector<std::pair<std::string, std::string>> replacements;
    for (std::size_t i = 0; i < std::min(names.size(), name.arguments.size()); ++i)
      replacements.emplace_back(names[i], name.arguments[i]);
    std::string parameters;
    for (char c : with_words_replaced(text.substr(open + 1, close - open - 1), replacements))
      if (std::isspace(static_cast<unsigned char>(c)) == 0)
        parameters += c;
      else if (!parameters.empty() && parameters.back() != ' ')
        parameters += ' ';
    return fmt::format("template __global__ void {}({});", name.to_string(), trimmed(parameters));
  }
  return std::nullopt;
}

MissingKernel explain_missing_kernel(const Cubin& cubin, const std::string& declared, const std::string& source,
                                     const std::string& text) {
  const KernelName wanted = parse_kernel_name(declared);
  MissingKernel missing{.what = fmt::format("instance \"{}\" is not in the cubin of {}", declared, source), .fix = {}};
  const CubinKernel* closest = nullptr;
  KernelName closest_name;
  for (const CubinKernel& kernel : cubin.kernels) {
    KernelName name = parse_kernel_name(kernel.demangled);
    if (last_part(name.base) != last_part(wanted.base)) continue;
    if (closest == nullptr || equal_arguments(name, wanted) > equal_arguments(closest_name, wanted)) {
      closest = &kernel;
      closest_name = std::move(name);
    }
  }
  const auto line = instantiation_line(text, wanted);
  if (closest == nullptr) {
    std::string there;
    for (const CubinKernel& kernel : cubin.kernels)
      there += (there.empty() ? "" : ", ") + parse_kernel_name(kernel.demangled).to_string();
    missing.what += there.empty() ? "; there is no kernel in it at all" : "; it has " + there;
    if (line)
      missing.fix = fmt::format("add this line to {}: {}", source, *line);
    else if (wanted.arguments.empty())
      missing.fix = fmt::format("define it in {} as: __global__ void {}(...), or correct `name` in cudadent.toml",
                                source, wanted.base);
    else
      missing.fix = fmt::format("add this line to {}: template __global__ void {}(<its parameters>);", source,
                                wanted.to_string());
    return missing;
  }
  missing.what += fmt::format("; the closest that is there is \"{}\"", closest_name.to_string());
  std::vector<std::pair<std::string, std::string>> replacements;
  if (closest_name.arguments.size() == wanted.arguments.size()) {
    bool only_lookalikes = true;
    std::string differing;
    for (std::size_t i = 0; i < wanted.arguments.size(); ++i) {
      if (wanted.arguments[i] == closest_name.arguments[i]) continue;
      replacements.emplace_back(closest_name.arguments[i], wanted.arguments[i]);
      only_lookalikes = only_lookalikes && look_alike(wanted.arguments[i], closest_name.arguments[i]);
      differing += fmt::format("{}declared {}, instantiated {}", differing.empty() ? "" : "; ", wanted.arguments[i],
                               closest_name.arguments[i]);
    }
    if (only_lookalikes && !replacements.empty()) {
      missing.what +=
          fmt::format(": type mismatch ({}): the same bits, but another type and so another symbol", differing);
      missing.fix = fmt::format(
          "instantiate with {} in {} (no framework type in kernel sources), or change `name` in "
          "cudadent.toml to \"{}\"",
          replacements.front().second, source, closest_name.to_string());
      return missing;
    }
  }
  missing.fix = fmt::format("add this line to {}: {}", source,
                            line ? *line
                                 : fmt::format("template __global__ void {}({});", wanted.to_string(),
                                               with_words_replaced(closest_name.parameters, replacements)));
  return missing;
}

}  // namespace flashmoe::workflow
