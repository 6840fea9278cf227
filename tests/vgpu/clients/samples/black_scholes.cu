// Prices of options by the formula of Black and Scholes, against the same in double on the host.
#include "sample.cuh"

__host__ __device__ inline double normal(double x) {
  return 0.5 * erfc(-x * 0.70710678118654752);
}

__device__ inline float normal(float x) {
  return 0.5F * erfcf(-x * 0.70710678F);
}

template <class T>
__host__ __device__ T call_price(T spot, T strike, T years, T rate, T volatility) {
  const T root = volatility * sqrt(years);
  const T d1 = (log(spot / strike) + (rate + volatility * volatility / 2) * years) / root;
  return spot * normal(d1) - strike * exp(-rate * years) * normal(d1 - root);
}

__global__ void price(const float* spot, const float* strike, const float* years, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = call_price(spot[i], strike[i], years[i], 0.02F, 0.3F);
}

int main() {
  constexpr int count = 1'000;
  const auto spot = random_values<float>(count, 5, 30, 1), strike = random_values<float>(count, 5, 30, 2);
  const auto years = random_values<float>(count, 0.25, 5, 3);
  DeviceArray<float> device_spot(spot), device_strike(strike), device_years(years), out(count);
  price<<<blocks_for(count, 128), 128>>>(device_spot, device_strike, device_years, out, count);
  finish();
  const auto ours = out.host();
  for (int i = 0; i < count; ++i)
    HOLDS(close(ours[i], call_price<double>(spot[i], strike[i], years[i], 0.02F, 0.3F), 30 * 8));  // of a spot of 30
}
