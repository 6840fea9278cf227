#include "vgpu/micro/compare.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "vgpu/micro/values.hpp"
#include "vgpu/oracle/number.hpp"
#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::micro {

namespace {

using oracle::Format;
using oracle::Number;

std::uint64_t bits_at(const std::vector<std::uint8_t>& bytes, std::size_t offset, int bits) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, static_cast<std::size_t>((bits + 7) / 8));
  return value;
}

bool agree(const Tolerance& tolerance, const std::string& type, std::uint64_t got, std::uint64_t expected,
           std::uint64_t magnitude) {
  if (got == expected) return true;
  if (tolerance.kind == Tolerance::Kind::bits || !is_float(type)) return false;
  const Format format = oracle::format_of(type);
  const Number x = oracle::decode(got, format), y = oracle::decode(expected, format);
  if (x.is_nan() || y.is_nan()) return x.is_nan() && y.is_nan();
  if (tolerance.kind == Tolerance::Kind::number) return false;
  const long double a = oracle::approximate_value(x), b = oracle::approximate_value(y);
  const long double least_normal = std::ldexp(1.0L, 1 - format.bias());
  if (tolerance.kind == Tolerance::Kind::sum) {
    const Number sum = oracle::decode(magnitude, format);
    if (sum.is_infinite()) return true;  // out of range on the way: either may have overflowed
    return std::fabs(a - b) <= tolerance.relative * oracle::approximate_value(sum) + least_normal;
  }
  // An infinity stands for what is beyond the greatest number by less than the error.
  const long double greatest = oracle::approximate_value(oracle::greatest(format));
  const auto finite = [&](long double v) { return std::isinf(v) ? std::copysign(greatest, v) : v; };
  if (std::isinf(a) != std::isinf(b) && std::fabs(finite(std::isinf(a) ? b : a)) < greatest * 0.99L) return false;
  const long double ulp = std::ldexp(1.0L, std::max(std::ilogb(finite(b)), 1 - format.bias()) - format.fraction_bits);
  long double bound = tolerance.ulps * ulp + tolerance.relative * std::fabs(finite(b)) + tolerance.absolute;
  bound += ulp / 2;  // `expected` is rounded itself
  // Where results are flushed, a subnormal number and zero are the same.
  if (std::fabs(a) <= least_normal && std::fabs(b) <= least_normal) bound += least_normal;
  return std::fabs(finite(a) - finite(b)) <= bound;
}

bool fields_agree(const Field& field, std::uint64_t got, std::uint64_t expected, std::uint64_t magnitude) {
  if (!field.type.ends_with("x2")) return agree(field.tolerance, field.type, got, expected, magnitude);
  const std::string half = field.type.substr(0, field.type.size() - 2);
  const int bits = oracle::type_bits(field.type) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  return agree(field.tolerance, half, got & mask, expected & mask, magnitude & mask) &&
         agree(field.tolerance, half, got >> bits, expected >> bits, magnitude >> bits);
}

std::string inputs_of(const MicroKernel& kernel, std::uint32_t thread) {
  std::string text;
  for (std::uint32_t offset = 0; offset + 8 <= kernel.input_stride; offset += 8)
    text += fmt::format(" {:016x}", bits_at(kernel.input, std::size_t{thread} * kernel.input_stride + offset, 64));
  return text;
}

}  // namespace

std::string compare(const Comparison& c) {
  for (std::uint32_t thread = 0; thread < c.kernel.threads; ++thread) {
    const std::size_t record = std::size_t{thread} * c.kernel.output_stride;
    std::vector<bool> judged(c.kernel.output_stride, false);
    for (const Field& field : c.kernel.fields) {
      const int bits = oracle::type_bits(field.type);
      for (int i = 0; i < (bits + 7) / 8; ++i) judged[field.offset + static_cast<std::uint32_t>(i)] = true;
      const std::uint64_t got = bits_at(c.got, record + field.offset, bits);
      const std::uint64_t expected = bits_at(c.expected, record + field.offset, bits);
      const std::uint64_t magnitude = c.magnitudes.empty() ? 0 : bits_at(c.magnitudes, record + field.offset, bits);
      if (!fields_agree(field, got, expected, magnitude))
        return fmt::format("{}: thread {}, {} at {}: got {:x}, expected {:x}; inputs{}", c.kernel.form, thread,
                           field.type, field.offset, got, expected, inputs_of(c.kernel, thread));
    }
    for (std::uint32_t i = 0; i < c.kernel.output_stride; ++i)
      if (!judged[i] && c.got[record + i] != c.expected[record + i])
        return fmt::format("{}: thread {}, byte {}: got {:02x}, expected {:02x}; inputs{}", c.kernel.form, thread, i,
                           c.got[record + i], c.expected[record + i], inputs_of(c.kernel, thread));
  }
  return "";
}

Tolerance tolerance_of(const std::string& form) {
  const std::string opcode = form.substr(0, form.find('.'));
  const bool approximate = form.find(".approx") != std::string::npos || form.find(".full") != std::string::npos;
  Tolerance t{Tolerance::Kind::number};
  if (!approximate) return t;
  t.kind = Tolerance::Kind::near;
  const bool half = form.find(".f16") != std::string::npos, brain = form.find(".bf16") != std::string::npos;
  if (form.ends_with(".f64")) {
    // Gross approximations of 20 fraction bits with .ftz; the manual gives no bound for rsqrt.approx.f64, software
    // with an error of a few ulps.
    t.relative = form.find(".ftz") != std::string::npos ? std::ldexp(1.0, -19) : std::ldexp(1.0, -50);
    return t;
  }
  if (opcode == "rcp") t.ulps = 1;                                        // 9.7.3.13
  if (opcode == "div") t.ulps = 2;                                        // 9.7.3.8
  if (opcode == "sqrt") t.relative = std::ldexp(1.0, -23);                // 9.7.3.15
  if (opcode == "rsqrt") t.relative = std::exp2(-22.9);                   // 9.7.3.16
  if (opcode == "sin" || opcode == "cos") t.absolute = std::exp2(-14.7);  // 9.7.3.18: within 100 pi
  if (opcode == "lg2") t.absolute = t.relative = std::ldexp(1.0, -22);    // 9.7.3.20
  if (opcode == "ex2") t.ulps = 2;                                        // 9.7.3.21
  if (opcode == "ex2" && half) t = {Tolerance::Kind::near, 0, std::exp2(-9.9), 0};
  if (opcode == "ex2" && brain) t = {Tolerance::Kind::near, 0, std::ldexp(1.0, -7), 0};
  if (opcode == "tanh") t.relative = std::ldexp(1.0, -11);
  if (opcode == "tanh" && half) t = {Tolerance::Kind::near, 0, 0, std::exp2(-10.987)};
  if (opcode == "tanh" && brain) t = {Tolerance::Kind::near, 0, 0, std::ldexp(1.0, -8)};
  return t;
}

}  // namespace flashmoe::vgpu::micro
