// evaluate(): a recursive-descent parser that computes as it reads. Every error carries the column in the expression.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "workflow/project/project.hpp"
#include "workflow/project/suggest.hpp"

namespace flashmoe::workflow {
namespace {

constexpr int max_depth = 64;  // of parentheses and signs: the parser recurses on them
constexpr std::size_t max_length = 1024;
constexpr double exact_limit = 9007199254740992.0;  // 2^53: beyond it a double skips integers

struct Function {
  std::string_view name;
  std::size_t arity;
};
constexpr std::array functions{Function{"min", 2},       Function{"max", 2},       Function{"ceil_div", 2},
                               Function{"floor_div", 2}, Function{"pow2_ceil", 1}, Function{"if", 3}};

// Thrown and caught inside this file only: an error leaves the recursion from any depth.
struct Error {
  Diagnostic diagnostic;
};

bool is_integer(double value) {
  return std::floor(value) == value;
}
bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

class Parser {
 public:
  Parser(const std::string& text, const Values& values) : text_(text), values_(values) {}

  double parse() {
    if (text_.size() > max_length) {
      fail(0, fmt::format("an expression of {} characters; at most {} are allowed", text_.size(), max_length), "");
    }
    skip_spaces();
    if (at_ == text_.size()) fail(at_, "is empty", "write a number or an expression such as ceil_div(n, 256)");
    const double value = any_of();
    if (at_ != text_.size()) fail(at_, fmt::format("'{}' is not expected here", text_[at_]), operators_help);
    return value;
  }

 private:
  static constexpr const char* operators_help =
      "operators are + - * / % < <= > >= == != not, and, or, and parentheses; functions are min, max, ceil_div, "
      "floor_div, pow2_ceil, if";

  [[noreturn]] void fail(std::size_t at, std::string message, std::string fix) const {
    Diagnostic diagnostic;
    diagnostic.message = fmt::format("\"{}\": {}", shown(), message);
    diagnostic.fix = std::move(fix);
    diagnostic.column = static_cast<int>(at) + 1;
    throw Error{std::move(diagnostic)};
  }

  // Without the blanks around it: an axis of "f32[n, m]" comes with one.
  std::string shown() const {
    const std::size_t first = text_.find_first_not_of(' ');
    if (first == std::string::npos) return "";
    return text_.substr(first, std::min(text_.find_last_not_of(' ') - first + 1, max_length));
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool accept(std::string_view token) {
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    skip_spaces();
    return true;
  }

  bool accept_word(std::string_view word) {
    const std::size_t end = at_ + word.size();
    return !(end < text_.size() && in_name(text_[end])) && accept(word);
  }

  // Integers stay exact or are refused: a grid or a shape that was rounded would be worse than none.
  double exact(std::size_t at, double value) const {
    if (!std::isfinite(value)) fail(at, "the result is not finite", "");
    if (is_integer(value) && std::fabs(value) > exact_limit) {
      fail(at, fmt::format("{:g} is beyond 2^53, where integers are no longer exact", value), "");
    }
    return value;
  }

  // Both sides are always read, so that a wrong name is found whatever the values are.
  double any_of() {
    double left = all_of();
    while (accept_word("or")) {
      const double right = all_of();
      left = left != 0 || right != 0;
    }
    return left;
  }

  double all_of() {
    double left = negation();
    while (accept_word("and")) {
      const double right = negation();
      left = left != 0 && right != 0;
    }
    return left;
  }

  double negation() {
    if (!accept_word("not")) return comparison();
    const Nested nested(*this);
    return negation() == 0;
  }

  double comparison() {
    double left = sum();
    for (;;) {
      if (accept("<=")) {
        left = left <= sum();
      } else if (accept(">=")) {
        left = left >= sum();
      } else if (accept("==")) {
        left = left == sum();
      } else if (accept("!=")) {
        left = left != sum();
      } else if (accept("<")) {
        left = left < sum();
      } else if (accept(">")) {
        left = left > sum();
      } else {
        return left;
      }
    }
  }

  double sum() {
    double left = product();
    for (;;) {
      const std::size_t at = at_;
      if (accept("+")) {
        left = exact(at, left + product());
      } else if (accept("-")) {
        left = exact(at, left - product());
      } else {
        return left;
      }
    }
  }

  double product() {
    double left = unary();
    for (;;) {
      const std::size_t at = at_;
      if (accept("*")) {
        left = exact(at, left * unary());
      } else if (accept("/")) {
        left = divide(at, left, unary());
      } else if (accept("%")) {
        const double right = unary();
        left = left - right * floor_div(at, left, right);
      } else {
        return left;
      }
    }
  }

  double divide(std::size_t at, double left, double right) const {
    if (right == 0) fail(at, fmt::format("{:g} / 0 has no value", left), "");
    return exact(at, left / right);
  }

  double floor_div(std::size_t at, double left, double right) const {
    if (!is_integer(left) || !is_integer(right) || right <= 0) {
      fail(at, fmt::format("{:g} by {:g}: both must be integers and the divisor at least 1", left, right), "");
    }
    const double remainder = std::fmod(left, right);  // exact, unlike floor(left / right) for large values
    return (left - remainder) / right - (remainder < 0 ? 1 : 0);
  }

  double unary() {
    const Nested nested(*this);
    if (accept("-")) return -unary();
    if (accept("+")) return unary();
    return primary();
  }

  double primary() {
    const std::size_t at = at_;
    if (at == text_.size()) fail(at, "ends where a value is expected", operators_help);
    if (accept("(")) {
      const double value = any_of();
      if (!accept(")")) fail(at_, "')' is missing", fmt::format("close the '(' of column {}", at + 1));
      return value;
    }
    if (std::isdigit(static_cast<unsigned char>(text_[at])) || text_[at] == '.') return number();
    if (starts_name(text_[at])) return name();
    fail(at, fmt::format("'{}' is not a value", text_[at]), operators_help);
  }

  double number() {
    const std::size_t at = at_;
    // Decimal only, delimited here, so that strtod's hexadecimal, "inf" and locale never apply.
    while (at_ < text_.size() && (in_name(text_[at_]) || text_[at_] == '.' || sign_of_exponent())) ++at_;
    const std::string digits = text_.substr(at, at_ - at);
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    const bool decimal = digits.find_first_not_of("0123456789.eE+-") == std::string::npos;
    if (!decimal || end != digits.c_str() + digits.size()) {
      fail(at, fmt::format("'{}' is not a number", digits), "write decimal digits; a product needs '*'");
    }
    skip_spaces();
    return exact(at, value);
  }

  bool sign_of_exponent() const {
    const bool sign = text_[at_] == '+' || text_[at_] == '-';
    return sign && at_ > 0 && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
  }

  double name() {
    const std::size_t at = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    const std::string name = text_.substr(at, at_ - at);
    skip_spaces();
    if (accept("(")) return call(at, name);
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [parameter, value] : values_) known.push_back(parameter);
    fail(at, fmt::format("'{}' is not a parameter; parameters are {}", name, list_of(known)),
         suggestion(name, known, "or declare it under [params]"));
  }

  double call(std::size_t at, const std::string& name) {
    std::vector<double> arguments;
    if (!accept(")")) {
      do arguments.push_back(any_of());
      while (accept(","));
      if (!accept(")")) fail(at_, "')' is missing", fmt::format("close the call of {}", name));
    }
    const auto* function =
        std::find_if(functions.begin(), functions.end(), [&](const Function& f) { return f.name == name; });
    if (function == functions.end()) {
      std::vector<std::string> known;
      known.reserve(functions.size());
      for (const Function& f : functions) known.emplace_back(f.name);
      fail(at, fmt::format("'{}' is not a function; functions are {}", name, list_of(known)),
           suggestion(name, known, ""));
    }
    if (arguments.size() != function->arity) {
      fail(at, fmt::format("{} takes {} arguments, not {}", name, function->arity, arguments.size()), "");
    }
    return apply(at, name, arguments);
  }

  double apply(std::size_t at, const std::string& name, const std::vector<double>& a) const {
    if (name == "min") return std::min(a[0], a[1]);
    if (name == "max") return std::max(a[0], a[1]);
    if (name == "if") return a[0] != 0 ? a[1] : a[2];
    if (name == "floor_div") return floor_div(at, a[0], a[1]);
    if (name == "ceil_div") return -floor_div(at, -a[0], a[1]);
    double power = 1;  // pow2_ceil
    while (power < a[0]) power *= 2;
    return power;
  }

  struct Nested {
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser.depth_ > max_depth) parser.fail(parser.at_, fmt::format("is nested deeper than {}", max_depth), "");
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Parser& parser_;
  };

  const std::string& text_;
  const Values& values_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<double> evaluate(const std::string& expression, const Values& values) {
  try {
    const double value = Parser(expression, values).parse();
    return value == 0 ? 0.0 : value;  // no negative zero
  } catch (Error& error) {
    return std::move(error.diagnostic);
  }
}

}  // namespace flashmoe::workflow
