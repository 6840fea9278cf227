// shfl (PTX ISA 9.7.9.5, 9.7.9.6): each lane reads another lane of its segment. A source outside the segment leaves the
// lane its own value and p false. What an inactive source lane holds is undefined on a device; here it is read as it
// is.
#include "vgpu/exec/ops/lanes.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

enum class Shuffle { up, down, bfly, idx };

constexpr std::int32_t outside = -1;

// The lane to read, or outside. A plain number, so that a loop over lanes becomes vector code.
template <Shuffle S>
VGPU_INLINE std::int32_t source_of(std::int32_t lane, std::uint32_t b, std::uint32_t c) {
  const auto offset = static_cast<std::int32_t>(b & 31u);
  const auto clamp = static_cast<std::int32_t>(c & 31u);
  const auto segment = static_cast<std::int32_t>(c >> 8 & 31u);
  const std::int32_t first = lane & segment;
  const std::int32_t last = first | (clamp & ~segment);
  const std::int32_t source = S == Shuffle::up     ? lane - offset
                              : S == Shuffle::down ? lane + offset
                              : S == Shuffle::bfly ? lane ^ offset
                                                   : first | (offset & ~segment);
  const bool in_range = S == Shuffle::up ? source >= last : source <= last;
  return in_range ? source : outside;
}

// values[lanes[lane]] for every lane.
VGPU_INLINE void gather(const std::uint32_t* values, const std::int32_t* lanes, std::uint32_t* result) {
#if defined(__AVX512F__)
  const __m512i low = _mm512_load_si512(values), high = _mm512_load_si512(values + 16);
  for (int half = 0; half < lanes_per_warp; half += 16) {
    const __m512i index = _mm512_load_si512(lanes + half);
    _mm512_store_si512(result + half, _mm512_permutex2var_epi32(low, index, high));
  }
#else
  for (int lane = 0; lane < lanes_per_warp; ++lane) result[lane] = values[lanes[lane]];
#endif
}

template <Shuffle S>
void shfl(Warp& warp, const Inst& inst) {
  alignas(64) std::int32_t lanes[lanes_per_warp];
  alignas(64) std::int32_t sources[lanes_per_warp];
  alignas(64) std::uint32_t result[lanes_per_warp];  // apart from a, which may be d
  const std::uint32_t* b = warp.slot(inst.b);
  const std::uint32_t* c = warp.slot(inst.c);
  VGPU_LANES
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    sources[lane] = source_of<S>(lane, b[lane], c[lane]);
    lanes[lane] = sources[lane] == outside ? lane : sources[lane];
  }
  if (inst.d != ir::no_slot) {
    gather(warp.slot(inst.a), lanes, result);
    write_lanes<std::uint32_t>(warp, inst.d, [&](int lane) { return result[lane]; });
  }
  if (inst.e != ir::no_slot) {
    write_predicate(warp, inst.e, mask_of([&](int lane) { return sources[lane] != outside; }));
  }
}

}  // namespace

Handler find_shuffle(const Key& key) {
  if (key.op != Op::shfl) return nullptr;
  if (key.has(Modifier::up)) return shfl<Shuffle::up>;
  if (key.has(Modifier::down)) return shfl<Shuffle::down>;
  if (key.has(Modifier::bfly)) return shfl<Shuffle::bfly>;
  if (key.has(Modifier::idx)) return shfl<Shuffle::idx>;
  return nullptr;
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
