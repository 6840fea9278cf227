// A sparse matrix by rows (CSR) times a vector, a warp a row.
#include "sample.cuh"

__global__ void multiply(const int* starts, const int* columns, const int* values, const int* x, int* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  int sum = 0;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum += values[i] * x[columns[i]];
  for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(~0U, sum, width);
  if (lane == 0) y[row] = sum;
}

int main() {
  constexpr int rows = 90, columns = 200;
  std::mt19937 engine(4);
  std::vector<int> starts{0}, places, values, wanted(rows);
  const auto x = random_values<int>(columns, -20, 20);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column)
      if (engine() % 100 < static_cast<unsigned>(row)) {
        places.push_back(column);
        values.push_back(static_cast<int>(engine() % 19) - 9);
        wanted[row] += values.back() * x[column];
      }
    starts.push_back(static_cast<int>(places.size()));
  }
  DeviceArray<int> device_starts(starts), device_places(places), device_values(values), device_x(x), y(rows);
  multiply<<<blocks_for(rows * 32, 128), 128>>>(device_starts, device_places, device_values, device_x, y, rows);
  finish();
  HOLDS(y.host() == wanted);
}
