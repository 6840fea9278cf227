#include "machine_limits.hpp"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#define TARGET_AMX __attribute__((target("amx-tile,amx-bf16,avx512f")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512dq")))
#define TARGET_AVX2 __attribute__((target("avx2,fma")))

namespace {

// One thread's work: does `rounds` rounds and returns how many units that was.
using Work = std::function<double(long rounds)>;

// The compiler must believe that somebody looks at the result.
template <class Vector>
void keep(const Vector& value) {
  asm volatile("" : : "m"(value));
}

// The compiler must not know that the next round reads the same values.
template <class T>
void reload(const T*& address) {
  asm volatile("" : "+r"(address));
}

// ---- AMX ------------------------------------------------------------------------------------------------------------

constexpr int kTileRows = 16;
constexpr int kTileRowBytes = 64;
constexpr int kTileBytes = kTileRows * kTileRowBytes;
constexpr double kTileProductFlops = 2.0 * 16 * 16 * 32;
constexpr int kTileSets =
    4;  // 4 sets of 4 tiles are 16 KB: well inside the L1 cache, and not one address over and over

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

bool has_amx_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  // Linux gives a process the tile state's room only on request.
  constexpr long kArchReqXcompPerm = 0x1023, kTileDataFeature = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileDataFeature) == 0;
}

TARGET_AMX double amx_bf16_from_l1(const std::byte* tiles, long rounds) {
  TileConfig config;
  std::fill_n(config.row_bytes, 8, static_cast<std::uint16_t>(kTileRowBytes));
  std::fill_n(config.rows, 8, static_cast<std::uint8_t>(kTileRows));
  // Not _tile_loadconfig: gcc 12 declares a read smaller than 64 bytes there and may drop the stores above.
  asm volatile("ldtilecfg %0" : : "m"(config));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (long round = 0; round < rounds; ++round) {
    // Each loaded tile feeds two products, as in a kernel that keeps a 2 x 2 block of accumulators.
    const std::byte* set = tiles + (round % kTileSets) * 4 * kTileBytes;
    _tile_loadd(4, set, kTileRowBytes);
    _tile_loadd(6, set + 2 * kTileBytes, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, set + kTileBytes, kTileRowBytes);
    _tile_dpbf16ps(1, 5, 6);
    _tile_loadd(7, set + 3 * kTileBytes, kTileRowBytes);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * kTileProductFlops;
}

// ---- FMA: enough independent chains to cover 4 cycles of latency on two ports
// ----------------------------------------

constexpr int kChains = 12;

TARGET_AVX512 double fma_avx512(long rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.5F);
  for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, factor);
  }
  for (const __m512& sum : sums) keep(sum);
  return static_cast<double>(rounds) * kChains * 16 * 2;
}

TARGET_AVX2 double fma_avx2(long rounds) {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.5F);
  for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, factor);
  }
  for (const __m256& sum : sums) keep(sum);
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

// ---- exp2: only the instruction count matters here, so the coefficients are Taylor's, ln(2)^n / n!
// -------------------

constexpr float kExp2Taylor[7] = {1.0F,          0.69314718F,   0.24022651F,  5.5504109e-2F,
                                  9.6181291e-3F, 1.3333558e-3F, 1.5403530e-4F};
constexpr int kExpArguments = 4096;  // 16 KB of floats

// gcc 12 warns about its own unmasked scalef (an uninitialised pass-through); a full mask is the same instruction.
constexpr __mmask16 kAllLanes = 0xFFFF;

template <int Degree>
TARGET_AVX512 double exp2_avx512(const float* arguments, long rounds) {
  __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  for (long round = 0; round < rounds; ++round) {
    for (int i = 0; i < kExpArguments; i += 64) {
#pragma GCC unroll 4
      for (int lane = 0; lane < 4; ++lane) {
        const __m512 x = _mm512_load_ps(arguments + i + 16 * lane);
        const __m512 fraction = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);
        __m512 value = _mm512_set1_ps(kExp2Taylor[Degree]);
#pragma GCC unroll 6
        for (int n = Degree - 1; n >= 0; --n) value = _mm512_fmadd_ps(value, fraction, _mm512_set1_ps(kExp2Taylor[n]));
        sums[lane] = _mm512_add_ps(sums[lane], _mm512_maskz_scalef_ps(kAllLanes, value, x));  // scales by 2^floor(x)
      }
    }
    reload(arguments);
  }
  for (const __m512& sum : sums) keep(sum);
  return static_cast<double>(rounds) * kExpArguments;
}

template <int Degree>
TARGET_AVX2 double exp2_avx2(const float* arguments, long rounds) {
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  for (long round = 0; round < rounds; ++round) {
    for (int i = 0; i < kExpArguments; i += 32) {
#pragma GCC unroll 4
      for (int lane = 0; lane < 4; ++lane) {
        const __m256 x = _mm256_load_ps(arguments + i + 8 * lane);
        const __m256 whole = _mm256_floor_ps(x);
        const __m256 fraction = _mm256_sub_ps(x, whole);
        __m256 value = _mm256_set1_ps(kExp2Taylor[Degree]);
#pragma GCC unroll 6
        for (int n = Degree - 1; n >= 0; --n) value = _mm256_fmadd_ps(value, fraction, _mm256_set1_ps(kExp2Taylor[n]));
        const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23);
        const __m256 scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value), exponent));
        sums[lane] = _mm256_add_ps(sums[lane], scaled);
      }
    }
    reload(arguments);
  }
  for (const __m256& sum : sums) keep(sum);
  return static_cast<double>(rounds) * kExpArguments;
}

// ---- memory
// -----------------------------------------------------------------------------------------------------------

constexpr std::size_t kReadStep = 512;  // bytes: 8 vectors of 64, one chain each

TARGET_AVX512 double read_avx512(const std::byte* data, std::size_t bytes, long rounds) {
  __m512i ored[8];
  for (__m512i& value : ored) value = _mm512_setzero_si512();
  for (long round = 0; round < rounds; ++round) {
    for (std::size_t offset = 0; offset < bytes; offset += kReadStep) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) ored[i] = _mm512_or_si512(ored[i], _mm512_load_si512(data + offset + 64 * i));
    }
    reload(data);
  }
  for (const __m512i& value : ored) keep(value);
  return static_cast<double>(rounds) * static_cast<double>(bytes);
}

TARGET_AVX2 double read_avx2(const std::byte* data, std::size_t bytes, long rounds) {
  __m256i ored[8];
  for (__m256i& value : ored) value = _mm256_setzero_si256();
  for (long round = 0; round < rounds; ++round) {
    for (std::size_t offset = 0; offset < bytes; offset += kReadStep / 2) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const auto* address = reinterpret_cast<const __m256i*>(data + offset + 32 * i);
        ored[i] = _mm256_or_si256(ored[i], _mm256_load_si256(address));
      }
    }
    reload(data);
  }
  for (const __m256i& value : ored) keep(value);
  return static_cast<double>(rounds) * static_cast<double>(bytes);
}

// ---- running
// ----------------------------------------------------------------------------------------------------------

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Units per second of one thread: the best of several stretches.
double best_rate(const Work& work, double seconds, std::barrier<>& start_line) {
  constexpr int kStretches = 8;
  // The tile unit takes up to a millisecond to reach its speed; the same time tells how many rounds fill a stretch.
  const double warm_up_seconds = std::max(1e-3, seconds / 4);
  long rounds = 1, rounds_done = 0;
  const auto warm_up_start = Clock::now();
  double warm_up = 0;
  while ((warm_up = seconds_since(warm_up_start)) < warm_up_seconds) {
    work(rounds);
    rounds_done += rounds;
    rounds = std::min(rounds * 2, std::max(1L, rounds_done / 4));
  }
  const double rounds_per_second = static_cast<double>(rounds_done) / warm_up;
  rounds = std::max(1L, static_cast<long>(seconds / kStretches * rounds_per_second));
  start_line.arrive_and_wait();
  double best = 0;
  const auto start = Clock::now();
  do {
    const auto stretch_start = Clock::now();
    const double units = work(rounds);
    best = std::max(best, units / seconds_since(stretch_start));
  } while (seconds_since(start) < seconds);
  start_line.arrive_and_wait();
  return best;
}

double sum_of_rates(const std::vector<Work>& work_by_thread, double seconds) {
  std::barrier<> start_line(static_cast<std::ptrdiff_t>(work_by_thread.size()));
  std::vector<double> rates(work_by_thread.size());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < work_by_thread.size(); ++i) {
    others.emplace_back([&, i] { rates[i] = best_rate(work_by_thread[i], seconds, start_line); });
  }
  rates[0] = best_rate(work_by_thread[0], seconds, start_line);
  others.clear();  // joins
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<std::byte[], AlignedDelete>;

Buffer zeroed_buffer(std::size_t bytes) {
  Buffer buffer(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
  std::memset(buffer.get(), 0, bytes);  // zero in every format, and the pages exist
  return buffer;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

// Makes one thread's work; the buffers live as long as it does. An empty function: no such unit here.
Work make_work(std::string_view name, std::size_t bytes_per_thread) {
  if (name == "amx_bf16") {
    if (!has_amx_bf16()) return {};
    std::shared_ptr<std::byte[]> tiles(zeroed_buffer(kTileSets * 4 * kTileBytes));
    return [tiles](long rounds) { return amx_bf16_from_l1(tiles.get(), rounds); };
  }
  const bool avx512 = has_avx512();
  if (!avx512 && !has_avx2()) return {};
  if (name == "fma_fp32") return avx512 ? fma_avx512 : fma_avx2;
  if (name == "read") {
    const std::size_t bytes = std::max(kReadStep, bytes_per_thread / kReadStep * kReadStep);
    std::shared_ptr<std::byte[]> data(zeroed_buffer(bytes));
    return [data, bytes, avx512](long rounds) {
      return avx512 ? read_avx512(data.get(), bytes, rounds) : read_avx2(data.get(), bytes, rounds);
    };
  }
  std::shared_ptr<std::byte[]> memory(zeroed_buffer(kExpArguments * sizeof(float)));
  auto* arguments = reinterpret_cast<float*>(memory.get());
  for (int i = 0; i < kExpArguments; ++i) arguments[i] = -0.004F * static_cast<float>(i);
  using Exp2 = double (*)(const float*, long);
  const Exp2 exp2 = name == "exp2_degree3"   ? (avx512 ? exp2_avx512<3> : exp2_avx2<3>)
                    : name == "exp2_degree4" ? (avx512 ? exp2_avx512<4> : exp2_avx2<4>)
                                             : (avx512 ? exp2_avx512<6> : exp2_avx2<6>);
  return [memory, arguments, exp2](long rounds) { return exp2(arguments, rounds); };
}

constexpr std::string_view kNames[] = {"amx_bf16", "fma_fp32", "exp2_degree3", "exp2_degree4", "exp2_degree6", "read"};
constexpr int kMaxThreads = 1024;

}  // namespace

int flashmoe_measure_limit(const char* name, int threads, double seconds, size_t working_set_bytes,
                           double* per_second) try {
  if (name == nullptr || per_second == nullptr || threads < 1 || threads > kMaxThreads || !(seconds > 0)) {
    return FLASHMOE_LIMIT_BAD_ARGUMENT;
  }
  if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) return FLASHMOE_LIMIT_UNKNOWN_NAME;
  std::vector<Work> work_by_thread;
  for (int i = 0; i < threads; ++i) {
    work_by_thread.push_back(make_work(name, working_set_bytes / static_cast<std::size_t>(threads)));
    if (!work_by_thread.back()) return FLASHMOE_LIMIT_NO_SUCH_UNIT;
  }
  *per_second = sum_of_rates(work_by_thread, seconds);
  return FLASHMOE_LIMIT_OK;
} catch (const std::exception&) {
  return FLASHMOE_LIMIT_BAD_ARGUMENT;  // no memory for the working set, or no thread
}
