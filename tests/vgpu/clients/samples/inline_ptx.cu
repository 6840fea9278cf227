// PTX in the source: the lane, bit fields, a byte permutation, three-input logic, a wide product, a predicate.
#include "sample.cuh"

__global__ void instructions(unsigned seed, unsigned* out) {
  unsigned lane, field, bytes, logic, found;
  unsigned long long product;
  const unsigned x = seed * 2654435761U + threadIdx.x * 40503U;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("bfe.u32 %0, %1, 5, 9;" : "=r"(field) : "r"(x));
  asm("prmt.b32 %0, %1, %2, 0x1726;" : "=r"(bytes) : "r"(x), "r"(~x));
  asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(logic) : "r"(x), "r"(x << 7), "r"(x >> 9));
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(x), "r"(x ^ 0xFFFFU));
  asm("{\n .reg .pred p;\n setp.lt.u32 p, %1, %2;\n selp.u32 %0, 17, 34, p;\n}"
      : "=r"(found)
      : "r"(x), "r"(0x80000000U));
  const unsigned results[] = {lane, field, bytes, logic, static_cast<unsigned>(product >> 32), found};
  for (int i = 0; i < 6; ++i) out[threadIdx.x * 6 + i] = results[i];
}

int main() {
  DeviceArray<unsigned> out(64 * 6);
  instructions<<<1, 64>>>(12345U, out);
  finish();
  const auto ours = out.host();
  for (unsigned thread = 0; thread < 64; ++thread) {
    const unsigned x = 12345U * 2654435761U + thread * 40503U, y = ~x, *row = &ours[thread * 6];
    const unsigned a = x, b = x << 7, c = x >> 9;
    HOLDS(row[0] == thread % 32);
    HOLDS(row[1] == ((x >> 5) & 0x1FF));
    // The selector from its last digit: bytes 6, 2, 7, 1 of the eight; those of x come first.
    HOLDS(row[2] == (((y >> 16) & 255) | ((x >> 16) & 255) << 8 | (y >> 24) << 16 | ((x >> 8) & 255) << 24));
    HOLDS(row[3] == ((a & b) | (a & c) | (b & c)));
    HOLDS(row[4] == static_cast<unsigned>((static_cast<unsigned long long>(x) * (x ^ 0xFFFFU)) >> 32));
    HOLDS(row[5] == (x < 0x80000000U ? 17 : 34));
  }
}
