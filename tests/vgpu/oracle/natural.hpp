// Unsigned integers of any size, as one learns them at school. Slow and easy to check: the oracle rounds exact results,
// so it needs sums of numbers two thousand binary places apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flashmoe::vgpu::oracle {

using Bits = unsigned __int128;  // the contents of any register

// Digits of a number, least significant first. Most numbers have few, and those need no memory of their own: to
// allocate some for every sum took most of the oracle's time.
class Digits {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint32_t& operator[](std::size_t i) { return many_.empty() ? few_[i] : many_[i]; }
  [[nodiscard]] std::uint32_t operator[](std::size_t i) const { return many_.empty() ? few_[i] : many_[i]; }
  [[nodiscard]] std::uint32_t back() const { return (*this)[size_ - 1]; }
  void pop_back() { --size_; }
  void push_back(std::uint32_t digit) {
    resize(size_ + 1);
    (*this)[size_ - 1] = digit;
  }
  // New digits are zero.
  void resize(std::size_t size);

 private:
  std::array<std::uint32_t, 8> few_{};
  std::vector<std::uint32_t> many_{};  // all of them, once they are more than that
  std::size_t size_ = 0;
};

class Natural {
 public:
  Natural() = default;
  Natural(Bits value);  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_zero() const { return digits_.empty(); }
  [[nodiscard]] int length() const;  // bits without leading zeros
  [[nodiscard]] bool bit(int place) const;
  [[nodiscard]] bool any_below(int place) const;  // is one of the bits [0, place) set?
  [[nodiscard]] Bits low() const;                 // the lowest 128 bits

  friend Natural operator+(const Natural& a, const Natural& b);
  friend Natural operator-(const Natural& a, const Natural& b);  // a >= b
  friend Natural operator*(const Natural& a, const Natural& b);
  friend Natural operator<<(const Natural& a, int places);
  friend Natural operator>>(const Natural& a, int places);
  friend int compare(const Natural& a, const Natural& b);  // -1, 0, 1

 private:
  void trim();
  Digits digits_{};  // no zero at the end
};

struct Division {
  Natural quotient{}, remainder{};
};
[[nodiscard]] Division divide(const Natural& a, const Natural& b);  // b > 0
[[nodiscard]] Natural square_root(const Natural& a);                // rounded down

}  // namespace flashmoe::vgpu::oracle
