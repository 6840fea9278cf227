#include <algorithm>
#include <unordered_map>

#include "predict/cta_cost.hpp"

namespace flashmoe::predict {
namespace {

// Stages of a pipeline alternate: an iteration may be equal to the one after the next, or the fourth.
constexpr std::size_t most_stride = 4;

// Of any stretch of the path in one step: a polynomial modulo 2^64 over scrambled indices.
class StretchHash {
 public:
  explicit StretchHash(const std::vector<std::uint32_t>& path) : sum_(path.size() + 1), power_(path.size() + 1, 1) {
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::uint64_t scrambled = (path[i] + 1) * 0x9E3779B97F4A7C15ULL;
      sum_[i + 1] = sum_[i] * factor + (scrambled ^ (scrambled >> 29));
      power_[i + 1] = power_[i] * factor;
    }
  }
  [[nodiscard]] std::uint64_t of(std::size_t begin, std::size_t end) const {
    return sum_[end] - sum_[begin] * power_[end - begin];
  }

 private:
  static constexpr std::uint64_t factor = 0xD1342543DE82EF95ULL;
  std::vector<std::uint64_t> sum_;
  std::vector<std::uint64_t> power_;
};

// The longest run of equal stretches among those that begin at every stride-th of the positions.
void look(const std::vector<std::size_t>& positions, std::size_t stride, const StretchHash& hash, Loop& best) {
  for (std::size_t first = 0; first + stride < positions.size();) {
    const std::size_t period = positions[first + stride] - positions[first];
    std::size_t count = 1;
    for (std::size_t i = first + stride; i + stride < positions.size(); i += stride, ++count)
      if (positions[i + stride] - positions[i] != period ||
          hash.of(positions[i], positions[i + stride]) != hash.of(positions[first], positions[first + stride]))
        break;
    if (count > 1 && period * count > best.period * best.count)
      best = {.begin = positions[first], .period = period, .count = count};
    first += count > 1 ? (count - 1) * stride : 1;
  }
}

}  // namespace

Loop longest_loop(const WarpPath& path) {
  const auto& instructions = path.instructions;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> headers;  // where loops begin, and when that was reached
  for (std::size_t i = 1; i < instructions.size(); ++i)
    if (instructions[i] <= instructions[i - 1]) headers[instructions[i]];
  if (headers.empty()) return {};
  for (std::size_t i = 0; i < instructions.size(); ++i)
    if (const auto header = headers.find(instructions[i]); header != headers.end()) header->second.push_back(i);
  std::vector<std::uint32_t> in_order;  // so that the answer does not depend on the map's
  in_order.reserve(headers.size());
  for (const auto& [instruction, positions] : headers) in_order.push_back(instruction);
  std::sort(in_order.begin(), in_order.end());
  const StretchHash hash(instructions);
  Loop best;
  for (const std::uint32_t header : in_order)
    for (std::size_t stride = 1; stride <= most_stride; ++stride) look(headers[header], stride, hash, best);
  return best;
}

}  // namespace flashmoe::predict
