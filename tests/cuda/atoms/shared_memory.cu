// Where rows of every length put their chunks, and what ldmatrix makes of them.
#include "kernels/cuda/atoms/shared_memory.cuh"

namespace flashmoe::cuda {
namespace {

constexpr int most_chunks = 32, rows = 64;

// What the host needs to check the laws of SharedRows<Chunks>.
struct Laws {
  int row_bytes, is_swizzled, unit_chunks, unit_rows;
  int unit_row[32], unit_chunk[32];
  unsigned offset[rows][most_chunks];
  unsigned moved[2][rows][most_chunks];  // from the first and second chunk, an even number on
  unsigned lower[32][rows];              // a lane's first chunk, a multiple of unit_rows further down
};

template <int Chunks>
FMS_DEVICE void tell(Laws* all) {
  using Rows = SharedRows<Chunks>;
  Laws& to = all[Chunks - 1];
  const int lane = static_cast<int>(threadIdx.x);
  to.row_bytes = Rows::row_bytes;
  to.is_swizzled = Rows::is_swizzled ? 1 : 0;
  to.unit_chunks = Rows::unit_chunks;
  to.unit_rows = Rows::unit_rows;
  to.unit_row[lane] = Rows::unit_row(lane);
  to.unit_chunk[lane] = Rows::unit_chunk(lane);
  const int row_of_lane = Rows::unit_row(lane), chunk_of_lane = Rows::unit_chunk(lane);
  for (int down = 0; row_of_lane + down < rows; down += Rows::unit_rows)
    to.lower[lane][down] = Rows::turned(Rows::offset(row_of_lane, chunk_of_lane), Rows::turn_of(down)) +
                           static_cast<unsigned>(down * Rows::row_bytes);
  for (int row = lane; row < rows; row += 32)
    for (int chunk = 0; chunk < Chunks; ++chunk) {
      to.offset[row][chunk] = Rows::offset(row, chunk);
      for (int from = 0; from < 2 && from < Chunks; ++from)
        to.moved[from][row][chunk] =
            chunk % 2 == 0 ? Rows::turned(Rows::offset(row, from), chunk) + Rows::offset_of(chunk) : 0u;
    }
}

template <int Chunks>
FMS_DEVICE void tell_all(Laws* all) {
  if (blockIdx.x == Chunks - 1) tell<Chunks>(all);
  if constexpr (Chunks > 1) tell_all<Chunks - 1>(all);
}

// A tile of 16 x 16 elements that hold their own place, row * 256 + column, through shared memory into fragments.
template <bool Transposed>
FMS_DEVICE void fragments(unsigned* to) {
  using Rows = SharedRows<2>;
  __shared__ __align__(1024) unsigned char memory[16 * Rows::row_bytes];
  const int lane = static_cast<int>(threadIdx.x);
  const int row = lane % 16, chunk = lane / 16;
  unsigned words[4];
  for (int i = 0; i < 4; ++i) {
    const unsigned first = static_cast<unsigned>(row * 256 + chunk * 8 + 2 * i);
    words[i] = first | (first + 1) << 16;
  }
  store_shared(shared_address(memory) + Rows::offset(row, chunk), uint4{words[0], words[1], words[2], words[3]});
  __syncwarp();
  // Matrix m is the m-th quarter: rows 0-7 and 8-15 of the first chunk, then of the second.
  uint32 matrices[4];
  const uint32 from = shared_address(memory) + Rows::offset(lane % 16, lane / 16);
  if constexpr (Transposed) {
    load_matrices_transposed(matrices, from);
  } else {
    load_matrices(matrices, from);
  }
  for (int i = 0; i < 4; ++i) to[i * 32 + lane] = matrices[i];
}

}  // namespace
}  // namespace flashmoe::cuda

extern "C" __global__ void laws(flashmoe::cuda::Laws* all) {
  flashmoe::cuda::tell_all<flashmoe::cuda::most_chunks>(all);
}
extern "C" __global__ void fragments(unsigned* to) {
  flashmoe::cuda::fragments<false>(to);
}
extern "C" __global__ void fragments_transposed(unsigned* to) {
  flashmoe::cuda::fragments<true>(to);
}
// Words and chunks there and back.
extern "C" __global__ void round_trip(const uint4* from, uint4* to, unsigned* words) {
  using namespace flashmoe::cuda;
  __shared__ __align__(16) unsigned char memory[32 * 16];
  const uint32 mine = shared_address(memory) + threadIdx.x * 16;
  store_shared(mine, from[threadIdx.x]);
  to[threadIdx.x] = load_shared(mine);
  __syncwarp();
  store_shared(shared_address(memory) + threadIdx.x * 4, threadIdx.x * 3);
  __syncwarp();
  words[threadIdx.x] = load_shared(shared_address(memory) + threadIdx.x / 4 * 16).w;
}
