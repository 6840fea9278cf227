// Shapes of mistakes, and beside each the correct program that looks like it. shapes_test.cpp says which is which.
#include <cuda_fp16.h>

#define SHAPE(name) extern "C" __global__ void name(const float* in, float* out, unsigned* work, int n)

using Word = unsigned long long;

__device__ unsigned place(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
__device__ void init(Word* object, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(place(object)), "r"(count) : "memory");
}
__device__ void arrive(Word* object) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(place(object)) : "memory");
}
__device__ bool is_over(Word* object, unsigned parity) {
  unsigned over;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(over)
               : "r"(place(object)), "r"(parity)
               : "memory");
  return over != 0;
}
__device__ void wait(Word* object, unsigned parity) {
  while (!is_over(object, parity)) {
  }
}
__device__ void copy(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place(to)), "l"(from) : "memory");
}
__device__ void copies_arrive(Word* object) {  // as one of the arrivals that are expected
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(place(object)) : "memory");
}
__device__ void copies_arrive_too(Word* object) {  // beside them
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(place(object)) : "memory");
}
__device__ void light_fence() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
__device__ unsigned acquired(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ void release(unsigned* flag, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// ---- copies that an mbarrier joins; 64 threads, so that values go between lanes of a warp and between warps
#define JOINED(name, after_copy, before_read)      \
  SHAPE(name) {                                    \
    __shared__ Word full;                          \
    __shared__ float tile[64];                     \
    const int t = threadIdx.x;                     \
    if (t == 0) init(&full, 64);                   \
    __syncthreads();                               \
    copy(&tile[t], in + t);                        \
    after_copy;                                    \
    before_read;                                   \
    out[t] = tile[t ^ 1] + tile[63 - t] + tile[t]; \
  }
JOINED(joined_copies, copies_arrive(&full), wait(&full, 0))
JOINED(joined_copies_counted_apart, copies_arrive_too(&full); arrive(&full), wait(&full, 0))
JOINED(joined_copies_not_waited_for, copies_arrive(&full), )
JOINED(copies_that_nothing_joins, arrive(&full), wait(&full, 0))

SHAPE(copies_behind_the_arrival) {
  __shared__ Word full;
  __shared__ float tile[64];
  const int t = threadIdx.x;
  if (t == 0) init(&full, 64);
  __syncthreads();
  copies_arrive(&full);
  copy(&tile[t], in + t);
  wait(&full, 0);
  out[t] = tile[t];
  asm volatile("cp.async.wait_all;" ::: "memory");
}
// Two stages, filled in turn: the copies of a stage are those issued since the last arrival.
SHAPE(joined_stages) {
  __shared__ Word full[2], empty[2];
  __shared__ float tile[2][32];
  const int t = threadIdx.x % 32;
  if (threadIdx.x < 2) {
    init(&full[threadIdx.x], 32);
    init(&empty[threadIdx.x], 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < 6; ++i) {
      wait(&empty[i & 1], (i >> 1 & 1) ^ 1);
      copy(&tile[i & 1][t], in + t);
      copies_arrive(&full[i & 1]);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  } else {
    float sum = 0;
    for (int i = 0; i < 6; ++i) {
      wait(&full[i & 1], i >> 1 & 1);
      sum += tile[i & 1][31 - t];
      arrive(&empty[i & 1]);
    }
    out[t] = sum;
  }
}
// The arrival of copies is none of the thread's other accesses.
SHAPE(store_before_joined_copies) {
  __shared__ Word full;
  __shared__ float tile[64], plain[64];
  const int t = threadIdx.x;
  if (t == 0) init(&full, 64);
  __syncthreads();
  plain[t] = 1;
  copy(&tile[t], in + t);
  copies_arrive(&full);
  wait(&full, 0);
  out[t] = plain[63 - t] + tile[63 - t];
}

// ---- one block writes, raises a flag, and another reads
#define FLAG(name, fence_of_all, fence_of_one, raise, look, fence_of_reader) \
  SHAPE(name) {                                                              \
    const int t = threadIdx.x;                                               \
    if (blockIdx.x == 0) {                                                   \
      out[t] = in[t];                                                        \
      fence_of_all;                                                          \
      __syncthreads();                                                       \
      if (t == 0) {                                                          \
        fence_of_one;                                                        \
        raise;                                                               \
      }                                                                      \
    } else {                                                                 \
      if (t == 0) {                                                          \
        while (look == 0) {                                                  \
        }                                                                    \
        fence_of_reader;                                                     \
      }                                                                      \
      __syncthreads();                                                       \
      out[64 + t] = out[63 - t];                                             \
    }                                                                        \
  }
#define VOLATILE (*(volatile unsigned*)work)
FLAG(flag_all_fence, __threadfence(), , atomicExch(work, 1u), atomicAdd(work, 0u), __threadfence())
FLAG(flag_all_fence_volatile, __threadfence(), , VOLATILE = 1, VOLATILE, __threadfence())
FLAG(flag_one_fences, , __threadfence(), atomicExch(work, 1u), atomicAdd(work, 0u), __threadfence())
FLAG(flag_released, , , release(work, 1), acquired(work), )
FLAG(flag_nobody_fences, , , atomicExch(work, 1u), atomicAdd(work, 0u), __threadfence())
FLAG(flag_reader_does_not_fence, __threadfence(), , atomicExch(work, 1u), atomicAdd(work, 0u), )
FLAG(flag_all_fence_lightly, light_fence(), , atomicExch(work, 1u), atomicAdd(work, 0u), light_fence())
FLAG(flag_block_fence, __threadfence_block(), , atomicExch(work, 1u), atomicAdd(work, 0u), __threadfence())

// ---- phases, init and arrivals of mbarriers
#define ROUNDS(name, before, after_init, after_read) \
  SHAPE(name) {                                      \
    __shared__ Word object;                          \
    __shared__ float tile[64];                       \
    const int t = threadIdx.x;                       \
    before;                                          \
    if (t == 0) init(&object, 64);                   \
    after_init;                                      \
    float sum = 0;                                   \
    unsigned phase = 0;                              \
    for (int i = 0; i < 4; ++i) {                    \
      tile[t] = in[t] + i;                           \
      arrive(&object);                               \
      wait(&object, phase);                          \
      phase ^= 1;                                    \
      sum += tile[63 - t] + tile[t ^ 1];             \
      after_read;                                    \
    }                                                \
    out[t] = sum;                                    \
  }
ROUNDS(phases_of_two, , __syncthreads(), arrive(&object); wait(&object, phase); phase ^= 1)
ROUNDS(phases_of_one, , __syncthreads(), )
ROUNDS(arrival_before_init, if (t == 40) arrive(&object); __syncthreads(), __syncthreads(), arrive(&object);
       wait(&object, phase); phase ^= 1)
#define INITS(name, after_init, after_arrival) \
  SHAPE(name) {                                \
    __shared__ Word object;                    \
    __shared__ float tile[64];                 \
    const int t = threadIdx.x;                 \
    if (t == 0) init(&object, 64);             \
    after_init;                                \
    tile[t] = in[t];                           \
    arrive(&object);                           \
    after_arrival;                             \
    while (!is_over(&object, 0) && n-- > 0) {  \
    }                                          \
    out[t] = tile[t];                          \
  }
INITS(init_once, __syncthreads(), )
SHAPE(object_given_up) {  // by a lane that its warp elected, as libcu++ ends a pipeline
  __shared__ Word object;
  __shared__ unsigned threads;
  if (threadIdx.x == 0) {
    init(&object, 64);
    threads = 64;
  }
  __syncthreads();
  arrive(&object);
  wait(&object, 0);
  out[threadIdx.x] = 1;
  const unsigned here = __match_any_sync(__activemask(), place(&threads));
  if (threadIdx.x % 32 != __ffs(here) - 1) return;
  asm volatile("fence.sc.cta;" ::: "memory");
  unsigned left;
  asm volatile("atom.add.acquire.cta.shared.u32 %0, [%1], %2;"
               : "=r"(left)
               : "r"(place(&threads)), "r"(-__popc(here))
               : "memory");
  if (left == __popc(here)) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(place(&object)) : "memory");
}
INITS(init_without_barrier, , )
INITS(init_twice, __syncthreads(), if (t == 0) init(&object, 64))

#define STAGES(name, first, wait_for_empty, before_read, after_read) \
  SHAPE(name) {                                                      \
    __shared__ Word full, empty;                                     \
    __shared__ float tile[64];                                       \
    const int t = threadIdx.x % 64;                                  \
    if (threadIdx.x == 0) {                                          \
      init(&full, 64);                                               \
      init(&empty, 64);                                              \
    }                                                                \
    __syncthreads();                                                 \
    if (threadIdx.x < 64) {                                          \
      for (int i = first; i < 4; ++i) {                              \
        wait_for_empty;                                              \
        tile[t] = in[t] + i;                                         \
        arrive(&full);                                               \
      }                                                              \
    } else {                                                         \
      float sum = 0;                                                 \
      for (int i = 0; i < 4; ++i) {                                  \
        wait(&full, i & 1);                                          \
        before_read;                                                 \
        sum += tile[63 - t];                                         \
        after_read;                                                  \
      }                                                              \
      out[t] = sum;                                                  \
    }                                                                \
  }
STAGES(stage_handed_back, 0, wait(&empty, (i & 1) ^ 1), , arrive(&empty))
STAGES(stage_handed_back_early, 0, wait(&empty, (i & 1) ^ 1), arrive(&empty), )

// ---- shuffles from lanes that do not take part; 32 threads
SHAPE(shuffle_from_outside) {
  float value = in[threadIdx.x];
  if (threadIdx.x < 16) value = __shfl_sync(0x0000ffffu, value, 20);
  out[threadIdx.x] = value;
}
SHAPE(shuffle_from_inside) {
  float value = in[threadIdx.x];
  if (threadIdx.x < 16) value = __shfl_sync(0x0000ffffu, value, 12);
  out[threadIdx.x] = value;
}
SHAPE(shuffle_after_exit) {  // n lanes stay
  if (threadIdx.x >= n) return;
  float sum = in[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) out[0] = sum;
}
SHAPE(shuffle_after_exit_chosen) {
  if (threadIdx.x >= n) return;
  float sum = in[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x + step < n) sum += other;
  }
  if (threadIdx.x == 0) out[0] = sum;
}
SHAPE(shuffle_in_tiles) {  // two halves, each with a mask of its own
  float sum = in[threadIdx.x];
  const unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step, 16);
  out[threadIdx.x] = sum;
}
SHAPE(shuffle_across_tiles) {
  float sum = in[threadIdx.x];
  const unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
  out[threadIdx.x] = sum;
}

// ---- the read-only path
SHAPE(read_only_of_what_was_written) {
  out[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[64 + threadIdx.x] = __ldg(out + 63 - threadIdx.x);
}
SHAPE(plain_read_of_what_was_written) {
  out[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[64 + threadIdx.x] = *(volatile float*)(out + 63 - threadIdx.x);
}
SHAPE(read_only_then_written) {  // in place: every element is read before it is written, by the thread that writes it
  float* const in_place = (float*)work;
  const float value = __ldg(in_place + threadIdx.x);
  in_place[threadIdx.x] = value + 1;
  out[threadIdx.x] = __ldg(in + 63 - threadIdx.x);
}

// ---- lanes that count on being in step
#define HALVES(name, qualifier, sync)               \
  SHAPE(name) {                                     \
    __shared__ qualifier float sums[64];            \
    const int t = threadIdx.x;                      \
    sums[t] = in[t];                                \
    sums[t + 32] = in[t + 32];                      \
    sync;                                           \
    for (int half = 32; half > 0; half /= 2) {      \
      float sum = 0;                                \
      if (t < half) sum = sums[t] + sums[t + half]; \
      sync;                                         \
      if (t < half) sums[t] = sum;                  \
      sync;                                         \
    }                                               \
    if (t == 0) out[0] = sums[0];                   \
  }
HALVES(halves_in_step, volatile, )
HALVES(halves_synchronised, volatile, __syncwarp())
SHAPE(shared_flag) {  // volatile is right for a flag
  __shared__ volatile unsigned raised;
  __shared__ float value;
  if (threadIdx.x == 0) raised = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    value = in[0];
    __threadfence_block();
    raised = 1;
  } else {
    while (raised == 0) {
    }
    __threadfence_block();
    out[threadIdx.x] = value;
  }
}
SHAPE(shared_early_out) {  // and so for a hint, whoever sees it when
  __shared__ volatile unsigned found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    if (found != 0) break;
    if (in[i] == 6.0f) found = 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = found;
}

// ---- the end of one array in shared memory and the beginning of the next
#define NEIGHBOURS(name, value)                        \
  SHAPE(name) {                                        \
    __shared__ float first[64], second[64], third[64]; \
    const int t = threadIdx.x, zero = (int)work[0];    \
    first[t] = in[t];                                  \
    second[t] = in[t] + 1;                             \
    third[t] = in[t] + 2;                              \
    __syncthreads();                                   \
    out[t] = first[t] + third[t] + (value);            \
  }
NEIGHBOURS(one_past_an_array, second[64 - (t != 0) + zero])
NEIGHBOURS(before_an_array, second[(t != 0) - 1 + zero])
NEIGHBOURS(last_of_an_array, second[63 + zero])
NEIGHBOURS(generic_past_an_array, *(volatile float*)(t == 0 ? second + 64 + zero : in + t))
NEIGHBOURS(generic_last_of_an_array, *(volatile float*)(t == 0 ? second + 63 + zero : in + t))
SHAPE(members_of_one_struct) {  // one variable: a walk over its bytes crosses its members
  struct Both {
    float low[32], high[32];
  };
  __shared__ Both both, other;
  const int t = threadIdx.x;
  float* const all = reinterpret_cast<float*>(&both);
  all[t] = in[t];
  other.low[t & 31] = other.high[t & 31] = 0;
  __syncthreads();
  out[t] = all[63 - t + (int)work[0]] + other.low[t & 31];
}
SHAPE(arrays_that_fill_shared_memory) {  // the red zones are beyond what a device counts
  __shared__ float first[6 * 1024], second[6 * 1024];
  const int t = threadIdx.x;
  first[6 * 1024 - 1 - t] = second[6 * 1024 - 1 - t] = in[t];
  __syncthreads();
  out[t] = first[6 * 1024 - 64 + t] + second[6 * 1024 - 64 + t];
}
SHAPE(rows_of_one_array) {  // a row's end is the next row's beginning, and may be said so
  __shared__ float rows[4][16];
  __shared__ float other[64];
  const int t = threadIdx.x;
  (&rows[0][0])[t] = in[t];
  other[t] = 0;
  __syncthreads();
  out[t] = rows[0][63 - t + (int)work[0]] + other[t];
}
extern __shared__ float extent[];
#define EXTENT(name, index)                                                                                   \
  SHAPE(name) {                                                                                               \
    __shared__ float fixed[24];                                                                               \
    __shared__ __align__(64) float aligned[16];                                                               \
    const int t = threadIdx.x;                                                                                \
    if (t < 24) fixed[t] = in[t];                                                                             \
    if (t < 16) aligned[t] = in[t];                                                                           \
    extent[t] = in[t];                                                                                        \
    __syncthreads();                                                                                          \
    out[t] = extent[63 - t] + fixed[(index) + (int)work[0]] + aligned[t & 15] + (float)(place(aligned) & 63); \
  }
EXTENT(extern_behind_arrays, t % 24)
EXTENT(array_runs_into_extern, t)

// ---- threads that leave without having come to the barrier
SHAPE(barrier_for_half_a_warp) {
  if (threadIdx.x < 16) __syncthreads();
  out[threadIdx.x] = 1;
}
SHAPE(barrier_for_one_warp) {
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = 1;
}
SHAPE(barrier_after_exit) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  if (t >= 40) return;
  tile[t] = in[t];
  __syncthreads();
  out[t] = tile[39 - t];
}
SHAPE(barrier_after_exit_with_result) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  if (t >= 40) {
    out[t] = -1;
    work[t] = 1;
    return;
  }
  tile[t] = in[t];
  __syncthreads();
  out[t] = tile[39 - t];
}
SHAPE(barrier_in_equal_rounds) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    tile[t] = in[t] + i;
    __syncthreads();
    sum += tile[63 - t];
    __syncthreads();
  }
  out[t] = sum;
}
SHAPE(barrier_in_unequal_rounds) {
  for (int i = 0; i < 1 + (int)threadIdx.x / 32; ++i) __syncthreads();
  out[threadIdx.x] = 1;
}

// ---- what one lane acquires or releases is not its warp's; 32 threads
#define ONE_ACQUIRES(name, sync)      \
  SHAPE(name) {                       \
    const int t = threadIdx.x;        \
    if (blockIdx.x == 0) {            \
      out[t] = in[t];                 \
      __syncwarp();                   \
      if (t == 0) release(work, 1);   \
    } else {                          \
      if (t == 0) {                   \
        while (acquired(work) == 0) { \
        }                             \
      }                               \
      sync;                           \
      out[32 + t] = out[31 - t];      \
    }                                 \
  }
ONE_ACQUIRES(one_lane_acquires, )
ONE_ACQUIRES(one_lane_acquires_for_all, __syncwarp())
#define ONE_RELEASES(name, fence, sync)  \
  SHAPE(name) {                          \
    const int t = threadIdx.x;           \
    if (blockIdx.x == 0) {               \
      out[t] = in[t];                    \
      fence;                             \
      sync;                              \
      if (t == 0) {                      \
        __threadfence();                 \
        atomicExch(work, 1u);            \
      }                                  \
    } else {                             \
      while (atomicAdd(work, 0u) == 0) { \
      }                                  \
      __threadfence();                   \
      out[32 + t] = out[31 - t];         \
    }                                    \
  }
ONE_RELEASES(one_lane_releases, , )
ONE_RELEASES(lanes_fence_and_one_releases, __threadfence(), )
ONE_RELEASES(one_lane_releases_for_all, , __syncwarp())
SHAPE(half_a_warp_hands_over) {  // tiles of 16 lanes, each with a leader
  const int t = threadIdx.x, tile = t / 16;
  const unsigned mask = tile == 0 ? 0x0000ffffu : 0xffff0000u;
  if (blockIdx.x == 0) {
    out[t] = in[t];
    __syncwarp(mask);
    if (t % 16 == 0) release(work + tile, 1);
  } else {
    if (t % 16 == 0) {
      while (acquired(work + tile) == 0) {
      }
    }
    __syncwarp(mask);
    out[32 + t] = out[t ^ 15];
  }
}
// The last block adds up what the others wrote, as the CUDA C++ Programming Guide shows it: one thread of a block
// fences and takes the ticket, and behind the barrier all read through volatile. Plain reads may find what a cache
// kept.
#define LAST_BLOCK(name, read_type)                             \
  SHAPE(name) {                                                 \
    __shared__ bool is_last;                                    \
    if (threadIdx.x == 0) {                                     \
      out[1 + blockIdx.x] = in[blockIdx.x];                     \
      __threadfence();                                          \
      is_last = atomicAdd(work, 1u) == gridDim.x - 1;           \
    }                                                           \
    __syncthreads();                                            \
    if (!is_last || threadIdx.x >= gridDim.x) return;           \
    out[32 + threadIdx.x] = ((read_type*)out)[1 + threadIdx.x]; \
  }
LAST_BLOCK(last_block_reads_volatile, volatile float)
LAST_BLOCK(last_block_reads_plainly, float)

SHAPE(lanes_take_tickets) {  // the last of a warp's lanes adds up what all of them wrote
  const int t = threadIdx.x;
  out[t] = in[t];
  __threadfence();
  const unsigned ticket = atomicAdd(work, 1u);
  __threadfence();
  if (ticket == 31) {
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += out[i];
    out[32] = sum;
  }
}

// ---- an exchange reads what it replaces; that matters where somebody uses it
SHAPE(exchange_into_fresh_memory) {
  atomicExch(&out[threadIdx.x], in[threadIdx.x]);
}
SHAPE(exchange_gives_what_was_never_set) {
  if (atomicExch(&out[threadIdx.x], in[threadIdx.x]) > 0) out[64 + threadIdx.x] = 1;
}

// ---- blocks that wait for blocks; more of them than fit, or as many
SHAPE(grid_meets) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(work, 1u);
    while (atomicAdd(work, 0u) < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

// ---- who only arrives at a barrier goes on; then the others know what it did before, and nothing else
#define ARRIVE asm volatile("bar.arrive 1, 128;" ::: "memory")
#define WAIT asm volatile("bar.sync 1, 128;" ::: "memory")
#define ARRIVALS(name, of_who_arrives, of_who_waits) \
  SHAPE(name) {                                      \
    __shared__ float tile[64];                       \
    const unsigned t = threadIdx.x % 64;             \
    if (threadIdx.x < 64) tile[t] = in[t];           \
    __syncthreads();                                 \
    if (threadIdx.x < 64) {                          \
      of_who_arrives;                                \
    } else {                                         \
      of_who_waits;                                  \
    }                                                \
  }
ARRIVALS(arrives_when_done, out[t] = tile[t]; ARRIVE, WAIT; tile[t] = 0)
ARRIVALS(reads_after_arriving, ARRIVE; out[t] = tile[t], WAIT; tile[t] = 0)
ARRIVALS(writes_after_arriving, ARRIVE; tile[t] = 0, WAIT; out[t] = tile[t])
