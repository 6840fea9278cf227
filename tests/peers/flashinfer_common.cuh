// FlashInfer's dispatch macros cut down to the instances a plug-in carries: its plan still runs as it stands, and a
// plan that asks for anything else ends in an exception instead of an hour of nvcc.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include <flashinfer/utils.cuh>

#include "peer.h"

#define PEER_ONLY(wanted, NAME, VALUE, ...)                                                          \
  if ((wanted) == (VALUE)) {                                                                         \
    constexpr size_t NAME = VALUE;                                                                   \
    __VA_ARGS__                                                                                      \
  } else {                                                                                           \
    std::ostringstream message;                                                                      \
    message << "the plan asks for " #NAME " = " << (wanted) << ", this plug-in carries " << (VALUE); \
    throw std::runtime_error(message.str());                                                         \
  }

#undef DISPATCH_CTA_TILE_Q
#undef DISPATCH_NUM_MMA_KV
#undef DISPATCH_GQA_GROUP_SIZE
#undef DISPATCH_HEAD_DIM
#undef DISPATCH_COMPUTE_CAP_DECODE_NUM_STAGES_SMEM
#define DISPATCH_CTA_TILE_Q(wanted, NAME, ...) PEER_ONLY(wanted, NAME, PEER_CTA_TILE_Q, __VA_ARGS__)
#define DISPATCH_NUM_MMA_KV(most, NAME, ...) PEER_ONLY(peer_power_of_two(most), NAME, PEER_NUM_MMA_KV, __VA_ARGS__)
#define DISPATCH_GQA_GROUP_SIZE(wanted, NAME, ...) PEER_ONLY(wanted, NAME, PEER_GROUP_SIZE, __VA_ARGS__)
#define DISPATCH_HEAD_DIM(wanted, NAME, ...) PEER_ONLY(wanted, NAME, PEER_HEAD_DIM, __VA_ARGS__)
#define DISPATCH_COMPUTE_CAP_DECODE_NUM_STAGES_SMEM(capability, NAME, ...) \
  PEER_ONLY((capability).first >= 8 ? 2U : 1U, NAME, 2U, __VA_ARGS__)

// FlashInfer rounds the number of KV steps down to 8, 4, 2 or 1.
inline uint32_t peer_power_of_two(uint32_t most) {
  return most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

// Runs the peer's code and keeps what it throws.
template <class Launch>
const char* peer_guarded(const Launch& launch) {
  static thread_local std::string problem;
  try {
    const cudaError_t status = launch();
    if (status == cudaSuccess) return nullptr;
    problem = cudaGetErrorString(status);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem.c_str();
}
