// Unsigned integers of any size, as one learns them at school. Slow and easy to check: the oracle rounds exact results,
// so it needs sums of numbers two thousand binary places apart.
#pragma once

#include <cstdint>
#include <vector>

namespace flashmoe::vgpu::oracle {

using Bits = unsigned __int128;  // the contents of any register

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
  std::vector<std::uint32_t> digits_{};  // least significant first, no zero at the end
};

struct Division {
  Natural quotient{}, remainder{};
};
[[nodiscard]] Division divide(const Natural& a, const Natural& b);  // b > 0
[[nodiscard]] Natural square_root(const Natural& a);                // rounded down

}  // namespace flashmoe::vgpu::oracle
