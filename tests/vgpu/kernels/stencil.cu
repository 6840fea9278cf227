// Three neighbours, with a halo in shared memory.
extern "C" __global__ void stencil(const float* in, float* out, unsigned* work, int n) {
  __shared__ float row[130];
  const int t = threadIdx.x, i = blockIdx.x * 128 + t;
  row[t + 1] = i < n ? in[i] : 0.0f;
  if (t == 0) row[0] = i > 0 ? in[i - 1] : 0.0f;
  if (t == 127) row[129] = i + 1 < n ? in[i + 1] : 0.0f;
  __syncthreads();
  if (i < n) out[i] = row[t] + row[t + 1] + row[t + 2];
}
