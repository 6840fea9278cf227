#include "workflow/compile/ptx_facts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>

namespace flashmoe::workflow {
namespace {

// Words (with . _ $ %), numbers and single punctuation; comments and strings are left out.
std::vector<std::string_view> tokens_of(std::string_view text) {
  std::vector<std::string_view> tokens;
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '$' || c == '%';
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const auto end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 2;
    } else if (text[i] == '"') {
      const auto end = text.find('"', i + 1);
      i = end == std::string_view::npos ? text.size() : end + 1;
    } else if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
      ++i;
    } else {
      std::size_t end = i + 1;
      if (in_word(text[i]))
        while (end < text.size() && in_word(text[end])) ++end;
      tokens.push_back(text.substr(i, end - i));
      i = end;
    }
  }
  return tokens;
}

// What the driver or ptxas itself provides.
constexpr std::array<std::string_view, 5> built_in{"vprintf", "malloc", "free", "__assertfail", "__cuda_syscall"};

std::int64_t bytes_of_type(std::string_view type) {
  // ".b8", ".f32", ".u64": the digits are bits.
  const auto digits = type.find_first_of("0123456789");
  int bits = 0;
  if (digits == std::string_view::npos) return 0;
  std::from_chars(type.data() + digits, type.data() + type.size(), bits);
  return bits / 8;
}

// `.shared .align 16 .b8 name[1024], other[4];` from the token after `.shared`; moves `at` to the semicolon.
std::int64_t shared_bytes(const std::vector<std::string_view>& tokens, std::size_t& at) {
  std::int64_t element = 0;
  std::int64_t total = 0;
  std::int64_t count = 1;
  bool in_variable = false;
  for (; at < tokens.size() && tokens[at] != ";"; ++at) {
    if (tokens[at] == ".align") {
      ++at;
    } else if (tokens[at].front() == '.') {
      element = bytes_of_type(tokens[at]);
    } else if (tokens[at] == "[" && at + 1 < tokens.size()) {
      std::int64_t size = 0;
      std::from_chars(tokens[at + 1].data(), tokens[at + 1].data() + tokens[at + 1].size(), size);
      count *= std::clamp<std::int64_t>(size, 0, std::int64_t{1} << 20);
      count = std::min<std::int64_t>(count, std::int64_t{1} << 40);
    } else if (tokens[at] == ",") {
      total += element * count;
      count = 1;
      in_variable = false;
    } else if (!in_variable && tokens[at] != "]") {
      in_variable = true;
    }
  }
  return total + (in_variable ? element * count : 0);
}

// The function's name: after an optional bracketed return value.
std::string_view function_name(const std::vector<std::string_view>& tokens, std::size_t at) {
  if (at < tokens.size() && tokens[at] == "(")
    while (at < tokens.size() && tokens[at++] != ")") {
    }
  return at < tokens.size() ? tokens[at] : std::string_view{};
}

}  // namespace

PtxFacts read_ptx(const std::string& text) {
  const auto tokens = tokens_of(text);
  PtxFacts facts;
  std::set<std::string_view> declared;
  std::set<std::string_view> defined;
  std::int64_t module_shared = 0;
  int depth = 0;
  bool in_entry = false;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const std::string_view token = tokens[at];
    const bool external = at > 0 && tokens[at - 1] == ".extern";
    if (token == "{") {
      ++depth;
    } else if (token == "}") {
      if (--depth == 0) in_entry = false;
    } else if (token == ".entry") {
      facts.entries.push_back({.name = std::string(function_name(tokens, at + 1))});
      in_entry = true;
    } else if (token == ".func" && depth == 0) {
      (external ? declared : defined).insert(function_name(tokens, at + 1));
      in_entry = false;
    } else if (token == ".shared" && !external) {
      const std::int64_t bytes = shared_bytes(tokens, ++at);
      if (depth > 0 && in_entry && !facts.entries.empty())
        facts.entries.back().static_shared_bytes += bytes;
      else
        module_shared += bytes;
    }
  }
  for (PtxEntry& entry : facts.entries) entry.static_shared_bytes += module_shared;
  for (const std::string_view name : declared)
    if (!name.empty() && !defined.contains(name) && std::find(built_in.begin(), built_in.end(), name) == built_in.end())
      facts.external_functions.emplace_back(name);
  return facts;
}

}  // namespace flashmoe::workflow
