// Text into a caller's buffer, as snprintf would write it, and the same in every locale.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <iterator>

namespace flashmoe::plan {

// Appends, and keeps counting behind the end.
class Text {
 public:
  Text(char* text, std::size_t capacity) : text_(text), capacity_(capacity) {
    if (capacity_ > 0) text_[0] = '\0';
  }

  // No %f, %e or %g: their point is the locale's.
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    std::va_list values;
    va_start(values, format);
    char* at = length_ < capacity_ ? text_ + length_ : nullptr;
    const int n = std::vsnprintf(at, at != nullptr ? capacity_ - length_ : 0, format, values);
    va_end(values);
    length_ += static_cast<std::size_t>(std::max(n, 0));
  }
  // The shortest digits that give the same float again.
  void add_float(float value) {
    char digits[32];
    add_digits(digits, std::to_chars(digits, std::end(digits), value).ptr);
  }
  void add_fixed(double value, int decimals) {
    char digits[340];
    add_digits(digits, std::to_chars(digits, std::end(digits), value, std::chars_format::fixed, decimals).ptr);
  }
  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  void add_digits(const char* begin, const char* end) { add("%.*s", static_cast<int>(end - begin), begin); }

  char* text_;
  std::size_t capacity_;
  std::size_t length_ = 0;
};

}  // namespace flashmoe::plan
