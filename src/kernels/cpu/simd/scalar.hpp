// The portable policy: plain C++ on 4-element arrays, which a compiler may or may not vectorise. It is the fallback
// for any machine and the easiest to read of the policies.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/exp2_poly.hpp"
#include "kernels/cpu/types.hpp"

namespace flashmoe::cpu {
namespace {

struct Scalar {
  static constexpr int width = 4;
  static constexpr int tile_vectors = 2;
  static constexpr int tile_keys = 4;
  struct F {
    float v[width];
  };
  struct I {
    int32_t v[width];
  };

  static F zero() { return set1(0.0F); }
  static F set1(float x) {
    return map([x](int) { return x; });
  }
  static F load(const float* p) {
    return map([p](int i) { return p[i]; });
  }
  static void store(float* p, F x) {
    for (int i = 0; i < width; ++i) p[i] = x.v[i];
  }
  static I load_int(const int32_t* p) { return {{p[0], p[1], p[2], p[3]}}; }
  static F add(F a, F b) {
    return map([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F sub(F a, F b) {
    return map([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F mul(F a, F b) {
    return map([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F div(F a, F b) {
    return map([&](int i) { return a.v[i] / b.v[i]; });
  }
  // Through double, where the product is exact: as accurate as FMA hardware, without a library call per element.
  static F fma(F a, F b, F c) {
    return map([&](int i) {
      return static_cast<float>(static_cast<double>(a.v[i]) * static_cast<double>(b.v[i]) +
                                static_cast<double>(c.v[i]));
    });
  }
  static F fms(F a, F b, F c) {
    return fma(a, b, map([&](int i) { return -c.v[i]; }));
  }
  static F max(F x, F keep) {
    return map([&](int i) { return x.v[i] > keep.v[i] ? x.v[i] : keep.v[i]; });
  }
  static F min(F x, F keep) {
    return map([&](int i) { return x.v[i] < keep.v[i] ? x.v[i] : keep.v[i]; });
  }
  static F bounded_if_finite(F x, float most) {
    return map([&](int i) {
      const float magnitude = std::fabs(x.v[i]);
      return magnitude > most && magnitude < __builtin_inff() ? std::copysign(most, x.v[i]) : x.v[i];
    });
  }
  static F copysign(F magnitude, F sign) {
    return map([&](int i) { return std::copysign(magnitude.v[i], sign.v[i]); });
  }
  static F where_less(F a, F b, F then, F otherwise) {
    return map([&](int i) { return a.v[i] < b.v[i] ? then.v[i] : otherwise.v[i]; });
  }
  static bool any_greater(F a, F b) {
    bool any = false;
    for (int i = 0; i < width; ++i) any |= a.v[i] > b.v[i];
    return any;
  }
  static float sum(F x) { return (x.v[0] + x.v[2]) + (x.v[1] + x.v[3]); }
  static float largest(F x) {
    float m = x.v[0];
    for (int i = 1; i < width; ++i) m = x.v[i] > m ? x.v[i] : m;
    return m;
  }
  static F zero_if_minus_inf(F x) {
    return map([&](int i) { return x.v[i] == -__builtin_inff() ? 0.0F : x.v[i]; });
  }
  static uint64_t nonzero_bytes(const uint8_t* p) {
    uint64_t bits = 0;
    for (int i = 0; i < 64; ++i) bits |= static_cast<uint64_t>(p[i] != 0) << i;
    return bits;
  }
  static F keep_bits(F x, uint32_t bits) {
    return map([&](int i) { return (bits >> i & 1U) != 0 ? x.v[i] : -__builtin_inff(); });
  }
  static F keep_bytes(F x, F bytes, int which) {
    return map([&](int i) {
      return (std::bit_cast<uint32_t>(bytes.v[i]) >> (8 * which) & 0xffU) != 0 ? x.v[i] : -__builtin_inff();
    });
  }
  static F mask_outside(F x, int32_t j, I lo, I hi) {
    return map([&](int i) { return lo.v[i] <= j && j < hi.v[i] ? x.v[i] : -__builtin_inff(); });
  }

  template <int Degree>
  static F exp2(F x) {
    return map([&](int i) { return exp2_one<Degree>(x.v[i]); });
  }

  template <class T>
  static F load_as(const T* p) {
    return map([p](int i) { return to_float(p[i]); });
  }
  template <class T>
  static F load_as(const T* p, int n) {
    return map([p, n](int i) { return i < n ? to_float(p[i]) : 0.0F; });
  }
  template <class T>
  static void store_as(T* p, F x) {
    store_as(p, x, width);
  }
  template <class T>
  static void store_as(T* p, F x, int n) {
    for (int i = 0; i < n; ++i) from_float(x.v[i], p[i]);
  }
  template <class T>
  static void load_pair(const T* p, F& a, F& b) {
    a = load_as(p);
    b = load_as(p + width);
  }
  static F load_bits(const void* p) {
    F bits;
    std::memcpy(bits.v, p, sizeof bits.v);
    return bits;
  }
  static void split_bits(F bits, F& first, F& second) {
    first = map([&](int i) { return std::bit_cast<float>(std::bit_cast<uint32_t>(bits.v[i]) << 16); });
    second = map([&](int i) { return std::bit_cast<float>(std::bit_cast<uint32_t>(bits.v[i]) & 0xffff0000U); });
  }
  template <class T>
  static void unpair(F&, F&) {}

  static void transpose(F (&r)[width]) {
    for (int i = 0; i < width; ++i) {
      for (int j = 0; j < i; ++j) {
        const float t = r[i].v[j];
        r[i].v[j] = r[j].v[i];
        r[j].v[i] = t;
      }
    }
  }
  static F sums(F (&r)[width]) {
    return map([&](int i) { return sum(r[i]); });
  }
  static void prefetch(const void*) {}

 private:
  template <class Element>
  static F map(Element&& element) {
    F r;
    for (int i = 0; i < width; ++i) r.v[i] = element(i);
    return r;
  }

  template <int Degree>
  static float exp2_one(float x) {
    // Below -127 the result is 0 (denormals are flushed); written so that NaN passes through.
    const float clamped = x < -127.0F ? -127.0F : x;
    if (!(clamped == clamped)) return x;
    const auto whole = static_cast<int32_t>(clamped) - (static_cast<float>(static_cast<int32_t>(clamped)) > clamped);
    const float f = clamped - static_cast<float>(whole);
    float p = Exp2Poly<Degree>::c[Degree - 1];
    for (int i = Degree - 2; i >= 0; --i) p = p * f + Exp2Poly<Degree>::c[i];
    return (p * f + 1.0F) * std::bit_cast<float>((whole + 127) << 23);
  }

  static float to_float(float x) { return x; }
  static float to_float(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
  static float to_float(E4m3 x) {
    const uint32_t magnitude = x.bits & 0x7fU;
    const float value =
        magnitude == 0x7fU ? __builtin_nanf("") : std::bit_cast<float>(magnitude << 20) * 0x1p120F;  // as for Half
    return std::copysign(value, x.bits >= 0x80U ? -1.0F : 1.0F);
  }
  static float to_float(Half x) {
    const uint32_t sign = (x.bits & 0x8000U) << 16;
    const uint32_t magnitude = x.bits & 0x7fffU;
    if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
    // Shifting the fp16 fields into fp32 places leaves the exponent 112 too small; multiplying by 2^112 corrects it
    // and normalises fp16 denormals on the way.
    return std::bit_cast<float>(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F) | sign);
  }

  static void from_float(float x, float& out) { out = x; }
  static void from_float(float x, Bf16& out) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    out.bits = static_cast<uint16_t>((x == x ? rounded : bits | 0x400000U) >> 16);
  }
  static void from_float(float x, Half& out) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t magnitude = bits & 0x7fffffffU;
    uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
      half = 0x7e00U;                       // NaN
    } else if (magnitude >= 0x477ff000U) {  // 65520 and above round to infinity
      half = 0x7c00U;
    } else if (magnitude >= 0x38800000U) {  // normal: drop 13 bits, to nearest even
      half = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
    } else {  // denormal: adding 0.5 aligns the last fp16 place with the last fp32 place, and rounds
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    }
    out.bits = static_cast<uint16_t>(sign | half);
  }
};

}  // namespace
}  // namespace flashmoe::cpu
