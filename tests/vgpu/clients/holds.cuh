// What has to hold in a client; where it does not, the line is told and the program ends with 1.
#pragma once

#include <cstdio>
#include <cstdlib>

#define HOLDS(condition)                                                                             \
  do {                                                                                               \
    if (!(condition)) {                                                                              \
      std::printf("line %d: %s (%s)\n", __LINE__, #condition, cudaGetErrorName(cudaGetLastError())); \
      std::exit(1);                                                                                  \
    }                                                                                                \
  } while (false)
#define WORKS(call) HOLDS((call) == cudaSuccess)
