#include "vgpu/oracle/natural.hpp"

#include <algorithm>
#include <bit>

namespace flashmoe::vgpu::oracle {

void Digits::resize(std::size_t size) {
  if (size > few_.size() && many_.empty()) many_.assign(few_.begin(), few_.end());
  if (size > many_.size() && !many_.empty()) many_.resize(size);
  for (std::size_t i = size_; i < size; ++i) (*this)[i] = 0;
  size_ = size;
}

Natural::Natural(Bits value) {
  for (; value != 0; value >>= 32) digits_.push_back(static_cast<std::uint32_t>(value));
}

void Natural::trim() {
  while (!digits_.empty() && digits_.back() == 0) digits_.pop_back();
}

int Natural::length() const {
  if (digits_.empty()) return 0;
  return static_cast<int>(digits_.size() - 1) * 32 + static_cast<int>(std::bit_width(digits_.back()));
}

bool Natural::bit(int place) const {
  const auto digit = static_cast<std::size_t>(place / 32);
  return place >= 0 && digit < digits_.size() && (digits_[digit] >> (place % 32) & 1) != 0;
}

bool Natural::any_below(int place) const {
  const auto whole = static_cast<std::size_t>(place / 32);
  for (std::size_t i = 0; i < std::min(whole, digits_.size()); ++i)
    if (digits_[i] != 0) return true;
  return whole < digits_.size() && (digits_[whole] & ((std::uint32_t{1} << (place % 32)) - 1)) != 0;
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
  product.digits_.resize(a.digits_.size() + b.digits_.size());
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
  shifted.digits_.resize(static_cast<std::size_t>(places / 32));
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < a.digits_.size(); ++i) {
    carry |= std::uint64_t{a.digits_[i]} << (places % 32);
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
