// The AMX tile registers, as named operations. Inline assembly instead of the compiler's intrinsics, because gcc 12
// declares too small a read for ldtilecfg and may drop the stores that fill the configuration.
#pragma once

#include <cstdint>

namespace flashmoe::cpu {
namespace {

// Palette 1: 8 tiles of at most 16 rows x 64 bytes, and whole ones unless somebody says otherwise.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

inline void load_tile_config(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config));
}

// Tiles are configured while an object of this type lives. The state is the thread's own.
class TileScope {
 public:
  TileScope() { load_tile_config(TileConfig{}); }
  ~TileScope() { asm volatile("tilerelease" ::); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

template <int Tile>
inline __attribute__((always_inline)) void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(Tile));
}

template <int Tile>
inline __attribute__((always_inline)) void tile_load(const void* base, int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(base), "r"(stride_bytes), "i"(Tile) : "memory");
}

template <int Tile>
inline __attribute__((always_inline)) void tile_store(void* base, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(base), "r"(stride_bytes), "i"(Tile) : "memory");
}

// C (16 rows x 16 fp32) += A (16 rows x 32 bf16) x B (16 pair rows x 16 pairs). Products are exact, sums round to
// nearest even in fp32; denormals count as zero (Intel SDM, TDPBF16PS).
template <int C, int A, int B>
inline __attribute__((always_inline)) void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

}  // namespace
}  // namespace flashmoe::cpu
