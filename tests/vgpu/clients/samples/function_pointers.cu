// Device functions by address, lambdas, and virtual functions of an object that the device makes.
#include <new>

#include "sample.cuh"

using Operation = int (*)(int, int);
__device__ int add(int a, int b) {
  return a + b;
}
__device__ int multiply(int a, int b) {
  return a * b;
}
__device__ int larger(int a, int b) {
  return a > b ? a : b;
}
__device__ Operation operations[] = {add, multiply, larger};

struct Shape {
  __device__ virtual int area() const = 0;
};
struct Square : Shape {
  int side;
  __device__ explicit Square(int length) : side(length) {}
  __device__ int area() const override { return side * side; }
};
struct Oblong : Shape {
  int side;
  __device__ explicit Oblong(int length) : side(length) {}
  __device__ int area() const override { return side * (side + 1); }
};

__global__ void call(int* out) {
  const int i = threadIdx.x;
  __shared__ alignas(Oblong) char room[64][sizeof(Oblong)];
  Shape* shape;
  if (i % 2 == 0)
    shape = new (room[i]) Square(i);
  else
    shape = new (room[i]) Oblong(i);
  const auto twice = [i](int x) { return 2 * x + i; };
  out[i] = operations[i % 3](i, 5) + 1000 * shape->area() + 1'000'000 * twice(1);
}

int main() {
  DeviceArray<int> out(64);
  call<<<1, 64>>>(out);
  finish();
  const auto ours = out.host();
  for (int i = 0; i < 64; ++i) {
    const int applied = i % 3 == 0 ? i + 5 : i % 3 == 1 ? i * 5 : std::max(i, 5);
    HOLDS(ours[i] == applied + 1000 * i * (i + i % 2) + 1'000'000 * (2 + i));
  }
}
