#include "vgpu/oracle/natural.hpp"

#include <algorithm>

namespace flashmoe::vgpu::oracle {

Natural::Natural(Bits value) {
  for (; value != 0; value >>= 32) digits_.push_back(static_cast<std::uint32_t>(value));
}

void Natural::trim() {
  while (!digits_.empty() && digits_.back() == 0) digits_.pop_back();
}

int Natural::length() const {
  if (digits_.empty()) return 0;
  int bits = static_cast<int>(digits_.size() - 1) * 32;
  for (std::uint32_t top = digits_.back(); top != 0; top >>= 1) ++bits;
  return bits;
}

bool Natural::bit(int place) const {
  const auto digit = static_cast<std::size_t>(place / 32);
  return place >= 0 && digit < digits_.size() && (digits_[digit] >> (place % 32) & 1) != 0;
}

bool Natural::any_below(int place) const {
  const int whole = std::min(place / 32, static_cast<int>(digits_.size()));
  for (int i = 0; i < whole; ++i)
    if (digits_[static_cast<std::size_t>(i)] != 0) return true;
  for (int i = whole * 32; i < std::min(place, length()); ++i)
    if (bit(i)) return true;
  return false;
}

Bits Natural::low() const {
  Bits value = 0;
  for (std::size_t i = std::min<std::size_t>(digits_.size(), 4); i-- > 0;) value = value << 32 | digits_[i];
  return value;
}

Natural operator+(const Natural& a, const Natural& b) {
  Natural sum;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.digits_.size(), b.digits_.size()) || carry != 0; ++i) {
    if (i < a.digits_.size()) carry += a.digits_[i];
    if (i < b.digits_.size()) carry += b.digits_[i];
    sum.digits_.push_back(static_cast<std::uint32_t>(carry));
    carry >>= 32;
  }
  return sum;
}

Natural operator-(const Natural& a, const Natural& b) {
  Natural difference;
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.digits_.size(); ++i) {
    std::int64_t digit = std::int64_t{a.digits_[i]} - borrow;
    if (i < b.digits_.size()) digit -= b.digits_[i];
    borrow = digit < 0 ? 1 : 0;
    difference.digits_.push_back(static_cast<std::uint32_t>(digit + (borrow << 32)));
  }
  difference.trim();
  return difference;
}

Natural operator*(const Natural& a, const Natural& b) {
  Natural product;
  product.digits_.assign(a.digits_.size() + b.digits_.size(), 0);
  for (std::size_t i = 0; i < a.digits_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.digits_.size(); ++j) {
      carry += std::uint64_t{a.digits_[i]} * b.digits_[j] + product.digits_[i + j];
      product.digits_[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    product.digits_[i + b.digits_.size()] = static_cast<std::uint32_t>(carry);
  }
  product.trim();
  return product;
}

Natural operator<<(const Natural& a, int places) {
  if (a.is_zero()) return a;
  Natural shifted;
  shifted.digits_.assign(static_cast<std::size_t>(places / 32), 0);
  std::uint64_t carry = 0;
  for (const std::uint32_t digit : a.digits_) {
    carry |= std::uint64_t{digit} << (places % 32);
    shifted.digits_.push_back(static_cast<std::uint32_t>(carry));
    carry >>= 32;
  }
  shifted.digits_.push_back(static_cast<std::uint32_t>(carry));
  shifted.trim();
  return shifted;
}

Natural operator>>(const Natural& a, int places) {
  Natural shifted;
  const auto skipped = static_cast<std::size_t>(places / 32);
  for (std::size_t i = skipped; i < a.digits_.size(); ++i) {
    std::uint64_t pair = a.digits_[i];
    if (i + 1 < a.digits_.size()) pair |= std::uint64_t{a.digits_[i + 1]} << 32;
    shifted.digits_.push_back(static_cast<std::uint32_t>(pair >> (places % 32)));
  }
  shifted.trim();
  return shifted;
}

int compare(const Natural& a, const Natural& b) {
  if (a.digits_.size() != b.digits_.size()) return a.digits_.size() < b.digits_.size() ? -1 : 1;
  for (std::size_t i = a.digits_.size(); i-- > 0;)
    if (a.digits_[i] != b.digits_[i]) return a.digits_[i] < b.digits_[i] ? -1 : 1;
  return 0;
}

Division divide(const Natural& a, const Natural& b) {
  Division result;
  for (int place = a.length() - 1; place >= 0; --place) {
    result.remainder = (result.remainder << 1) + Natural(a.bit(place) ? 1 : 0);
    result.quotient = result.quotient << 1;
    if (compare(result.remainder, b) >= 0) {
      result.remainder = result.remainder - b;
      result.quotient = result.quotient + Natural(1);
    }
  }
  return result;
}

Natural square_root(const Natural& a) {
  Natural root;
  for (int place = a.length() / 2; place >= 0; --place) {
    const Natural tried = root + (Natural(1) << place);
    if (compare(tried * tried, a) <= 0) root = tried;
  }
  return root;
}

}  // namespace flashmoe::vgpu::oracle
