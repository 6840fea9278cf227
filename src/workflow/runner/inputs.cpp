#include "workflow/runner/inputs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "workflow/runner/element.hpp"

namespace flashmoe::workflow {
namespace {

// splitmix64: a counter and a finaliser, so that any element could be computed alone.
std::uint64_t finalise(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;

double uniform_from(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double normal_from(std::uint64_t bits) {
  const auto sum =
      static_cast<double>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48));
  return (sum / 65536.0 - 2.0 + 2.0 / 65536.0) * 1.7320508075688772;
}

// Most of the controller's time goes here: inputs are renewed before every timed block, and products of 64 bits want
// AVX-512. All steps are exact but the last, so that every version gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void draw(std::span<double> values, bool normal, std::uint64_t state) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = finalise(state + golden * (i + 1));
    values[i] = normal ? normal_from(bits) : uniform_from(bits);
  }
}

void fill_ordinary(std::span<std::byte> bytes, cudadent_dtype dtype, bool normal, std::uint64_t seed) {
  const std::size_t size = bytes_per_element(dtype);
  const std::size_t count = bytes.size() / size;
  std::array<double, 512> some;
  for (std::size_t first = 0; first < count; first += some.size()) {
    const auto values = std::span(some).first(std::min(some.size(), count - first));
    draw(values, normal, seed + golden * first);
    store_elements(bytes.data() + first * size, dtype, values);
  }
}

double hard_value(const std::string& hard, double ordinary, std::uint64_t bits, cudadent_dtype dtype) {
  if (hard == "zero") return 0;
  if (hard == "huge") return ordinary * 1e4;
  if (hard == "large") return ordinary * 100;
  if (hard == lone_nan) return ordinary;  // its place is the caller's
  // One element in 64, so that most rows of a small workload have some and some have none.
  if (((bits >> 8) & 63) != 0) return ordinary;
  const double sign = (bits & 1) != 0 ? -1.0 : 1.0;
  if (hard == "denormal") return sign * smallest_denormal(dtype) * static_cast<double>(1 + ((bits >> 16) & 7));
  if (hard == "inf") return sign * std::numeric_limits<double>::infinity();
  if (hard == "nan") return std::numeric_limits<double>::quiet_NaN();
  return ordinary;
}

}  // namespace

std::uint64_t mix_seed(std::uint64_t seed, std::uint64_t salt) {
  return finalise(seed + golden * (salt + 1));
}

std::uint64_t fresh_seed() {
  std::random_device device;
  // 53 bits, so that it survives JSON readers that know only doubles.
  return ((static_cast<std::uint64_t>(device()) << 32) | device()) >> 11;
}

bool is_hard_value(const std::string& name) {
  return name == "denormal" || name == "inf" || name == "huge" || name == "large" || name == "nan" ||
         name == lone_nan || name == "zero";
}

void fill_input(std::span<std::byte> bytes, const TensorSpec& spec, std::uint64_t seed, const std::string& hard) {
  const std::size_t size = bytes_per_element(spec.dtype);
  const bool floating = is_floating(spec.dtype);
  const bool injected = floating && is_hard_value(hard);
  const std::size_t count = bytes.size() / size;
  const int kind = spec.init == "normal"    ? 0
                   : spec.init == "uniform" ? 1
                   : spec.init == "ones"    ? 2
                   : spec.init == "arange"  ? 3
                                            : 4;
  if (!injected && floating && kind < 2) {
    fill_ordinary(bytes, spec.dtype, kind == 0, seed);
    return;
  }
  const std::size_t lone_place = injected && hard == lone_nan && count > 0 ? finalise(seed) % count : count;
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < count; ++i) {
    state += golden;
    const std::uint64_t bits = finalise(state);
    double value = 0;
    if (kind == 0) value = floating ? normal_from(bits) : std::nearbyint(normal_from(bits) * 10);
    if (kind == 1) value = floating ? uniform_from(bits) : static_cast<double>(bits % 101);
    if (kind == 2) value = 1;
    if (kind == 3) value = static_cast<double>(i);
    if (injected) value = hard_value(hard, value, i == count / 2 ? bits & ~std::uint64_t{63 << 8} : bits, spec.dtype);
    if (i == lone_place) value = std::numeric_limits<double>::quiet_NaN();
    store_element(bytes.data() + i * size, spec.dtype, value);
  }
}

std::uint64_t quick_hash(std::span<const std::byte> bytes) {
  // Four lanes, so that the multiplications overlap.
  std::array<std::uint64_t, 4> lanes{golden, golden * 3, golden * 5, golden * 7};
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), bytes.data() + at, 32);
    for (std::size_t lane = 0; lane < 4; ++lane) {
      lanes[lane] = (lanes[lane] ^ words[lane]) * 0x9FB21C651E98DF25;
      lanes[lane] ^= lanes[lane] >> 29;
    }
  }
  std::uint64_t hash = bytes.size();
  for (; at < bytes.size(); ++at) hash = (hash ^ static_cast<std::uint64_t>(bytes[at])) * 0x100000001B3;
  for (const std::uint64_t lane : lanes) hash = finalise(hash ^ lane);
  return hash;
}

}  // namespace flashmoe::workflow
