#include "vgpu/micro/values.hpp"

#include <map>

#include "vgpu/oracle/number.hpp"
#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::micro {

namespace {

using oracle::Bits;
using oracle::Format;

std::vector<std::uint64_t> float_corners(const std::string& type) {
  const Format f = oracle::format_of(type);
  const std::uint64_t one_ulp = std::uint64_t{1} << f.shift;
  const std::uint64_t fraction = (std::uint64_t{1} << (f.fraction_bits + f.shift)) - one_ulp;
  const std::uint64_t least_normal = std::uint64_t{1} << (f.fraction_bits + f.shift);
  const std::uint64_t top = ((std::uint64_t{1} << f.exponent_bits) - 1) << (f.fraction_bits + f.shift);
  const auto value = [&](long double x) {
    return static_cast<std::uint64_t>(oracle::encode(oracle::number_from(x), f, oracle::Round::nearest_even));
  };
  std::vector<std::uint64_t> corners = {0,
                                        one_ulp,   // least subnormal
                                        fraction,  // greatest subnormal
                                        least_normal,
                                        least_normal + one_ulp,
                                        top - one_ulp,  // greatest number, where there is an infinity
                                        top,
                                        top | one_ulp,  // a signalling NaN
                                        top | fraction,
                                        value(1.0L) - one_ulp,
                                        value(1.0L) + one_ulp};
  for (const long double x : {0.5L,
                              1.0L,
                              1.5L,
                              2.0L,
                              2.5L,
                              3.0L,
                              0.1L,
                              127.5L,
                              240.0L,
                              255.5L,
                              448.0L,
                              464.0L,
                              465.0L,
                              32767.5L,
                              57344.0L,
                              61440.0L,
                              65504.0L,
                              65519.0L,
                              65520.0L,
                              65535.5L,
                              2147483647.0L,
                              2147483648.0L,
                              4294967295.0L,
                              4294967296.0L,
                              9223372036854775807.0L,
                              18446744073709551615.0L,
                              6.2e-5L,
                              3e-8L,
                              1e-10L,
                              1e-39L,
                              3.3e38L,
                              126.0L,
                              128.0L,
                              149.0L})
    corners.push_back(value(x));
  const std::size_t positive = corners.size();
  for (std::size_t i = 0; i < positive; ++i) corners.push_back(corners[i] | std::uint64_t{1} << (f.bits - 1));
  return corners;
}

std::uint64_t integer_value(int bits, Random& random) {
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  static const std::vector<std::uint64_t> small = {
      0,         1,     2,          3,        5,          7,          8,
      15,        16,    31,         32,       33,         63,         64,
      65,        127,   128,        255,      256,        32767,      32768,
      65535,     65536, 0x7fffffff, 1u << 31, 0xffffffff, 1ull << 32, 0x7fffffffffffffff,
      1ull << 63};
  switch (random() % 4) {
    case 0:
      return small[random() % small.size()] & mask;
    case 1:
      return (~small[random() % small.size()] + random() % 2) & mask;
    case 2:
      return random() >> (random() % 64) & mask;
    default:
      return random() & mask;
  }
}

std::uint64_t scalar_float(const std::string& type, Random& random) {
  const Format f = oracle::format_of(type);
  if (random() % 3 == 0) {
    static std::map<std::string, std::vector<std::uint64_t>> corners_of;
    std::vector<std::uint64_t>& corners = corners_of[type];
    if (corners.empty()) corners = float_corners(type);
    // Zero, the edges of the subnormal numbers, infinity and NaN are a form's most likely mistakes.
    const std::size_t half = corners.size() / 2;
    if (random() % 2 == 0) return corners[random() % 9 + (random() % 2 == 0 ? half : 0)];
    return corners[random() % corners.size()];
  }
  if (random() % 3 == 0) return random() & static_cast<std::uint64_t>((Bits{1} << f.bits) - 1);
  return tame_value(type, random);
}

template <class Of>
std::uint64_t in_halves(const std::string& type, Random& random, Of of) {
  const std::string half = type.substr(0, type.size() - 2);
  const std::uint64_t low = of(half, random);
  return of(half, random) << (oracle::type_bits(type) / 2) | low;
}

}  // namespace

bool is_float(const std::string& type) {
  return type[0] == 'f' || type[0] == 'e' || type.starts_with("bf") || type == "tf32";
}

std::uint64_t any_value(const std::string& type, Random& random) {
  if (!is_float(type)) return integer_value(oracle::type_bits(type), random);
  if (type.ends_with("x2")) return in_halves(type, random, scalar_float);
  return scalar_float(type, random);
}

std::uint64_t tame_value(const std::string& type, Random& random) {
  if (!is_float(type)) return integer_value(oracle::type_bits(type), random);
  if (type.ends_with("x2")) return in_halves(type, random, tame_value);
  const long double magnitude = 0.0625L * static_cast<long double>(1 + random() % 1024) / (random() % 2 == 0 ? 1 : 97);
  const long double value = random() % 2 == 0 ? magnitude : -magnitude;
  return static_cast<std::uint64_t>(
      oracle::encode(oracle::number_from(value), oracle::format_of(type), oracle::Round::nearest_even));
}

}  // namespace flashmoe::vgpu::micro
