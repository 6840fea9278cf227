#include <cuda_fp16.h>

// One 16x8x16 product: A and B^T in shared memory, rows of 128 bytes with the chunks swizzled, read by ldmatrix.
__device__ int place(int row, int chunk) { return row * 64 + ((chunk ^ (row & 7)) * 8); }
extern "C" __global__ void mma_swizzled(const float* in, float* out, unsigned* work, int n) {
  __shared__ alignas(128) __half a[16 * 64], b[8 * 64];
  const int lane = threadIdx.x;
  for (int i = lane; i < 16 * 16; i += 32) a[place(i / 16, i % 16 / 8) + i % 8] = __float2half(in[i]);
  for (int i = lane; i < 8 * 16; i += 32) b[place(i / 16, i % 16 / 8) + i % 8] = __float2half(in[256 + i]);
  __syncwarp();
  unsigned ra[4], rb[2];
  const unsigned pa = (unsigned)__cvta_generic_to_shared(&a[place(lane % 16, lane / 16)]);
  const unsigned pb = (unsigned)__cvta_generic_to_shared(&b[place(lane % 8, lane / 8 % 2)]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(pa)
               : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb) : "memory");
  float d[4] = {0, 0, 0, 0};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
