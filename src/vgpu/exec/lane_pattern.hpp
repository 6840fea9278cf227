// Addresses of a warp that are a sum over the bits of the lane's number: rows, one place for all, tiles of two
// dimensions. Nearly every access has one, and what would be asked of 32 lanes is then asked of six numbers.
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::exec {

struct LanePattern {
  static constexpr std::uint32_t lane_bits = 5;
  std::uint64_t base = 0;              // of lane 0
  std::uint64_t step[lane_bits] = {};  // what bit i of the lane's number adds, modulo 2^64

  [[nodiscard]] bool operator==(const LanePattern&) const = default;
  // False: these have none.
  [[nodiscard]] bool find(const std::uint64_t* address) {
    base = address[0];
    std::uint64_t differs = 0, far = 0;
    for (std::uint32_t bit = 0; bit < lane_bits; ++bit) {
      const std::uint32_t lanes = 1u << bit;
      const std::uint64_t distance = step[bit] = address[lanes] - base;
      far |= distance_of(distance);
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        differs |= address[lane + lanes] - address[lane] - distance;
      }
    }
    return differs == 0 && far >> 48 == 0;
  }
  void addresses(std::uint64_t* address) const {
    address[0] = base;
    for (std::uint32_t bit = 0; bit < lane_bits; ++bit) {
      const std::uint32_t lanes = 1u << bit;
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        address[lane + lanes] = address[lane] + step[bit];
      }
    }
  }
  [[nodiscard]] std::uint64_t lowest() const {
    std::uint64_t low = base;
    for (const std::uint64_t one : step) {
      low += is_down(one) ? one : 0;
    }
    return low;
  }
  // From the lowest to the highest.
  [[nodiscard]] std::uint64_t span() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t one : step) {
      sum += distance_of(one);
    }
    return sum;
  }
  // Whether every lane's bytes lie between these.
  [[nodiscard]] bool lies_in(std::uint64_t begin, std::uint64_t end, std::uint64_t bytes) const {
    const std::uint64_t low = lowest();
    return low >= begin && low < end && span() + bytes <= end - low;
  }
  // No bit below an alignment: all addresses have it.
  [[nodiscard]] std::uint64_t low_bits() const { return base | step[0] | step[1] | step[2] | step[3] | step[4]; }
  // Lane after lane without a gap.
  [[nodiscard]] bool is_row(std::uint64_t bytes) const {
    return step[0] == bytes && step[1] == 2 * bytes && step[2] == 4 * bytes && step[3] == 8 * bytes &&
           step[4] == 16 * bytes;
  }

 private:
  [[nodiscard]] static bool is_down(std::uint64_t distance) { return distance >> 63 != 0; }
  [[nodiscard]] static std::uint64_t distance_of(std::uint64_t distance) {
    return is_down(distance) ? -distance : distance;
  }
};

}  // namespace flashmoe::vgpu::exec
