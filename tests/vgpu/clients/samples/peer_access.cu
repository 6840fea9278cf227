// One device: there is no peer, and each question about one is answered so.
#include "sample.cuh"

__global__ void touch(int* value) {
  *value = 1;
}

int main() {
  int devices = 0, can = 1;
  WORKS(cudaGetDeviceCount(&devices));
  HOLDS(devices == 1);
  WORKS(cudaDeviceCanAccessPeer(&can, 0, 0));
  HOLDS(can == 0);
  HOLDS(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaErrorInvalidDevice);
  HOLDS(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorInvalidDevice);
  HOLDS(cudaSetDevice(1) == cudaErrorInvalidDevice);
  (void)cudaGetLastError();
  DeviceArray<int> value(1);
  touch<<<1, 1>>>(value);
  finish();
  HOLDS(value.host()[0] == 1);
}
