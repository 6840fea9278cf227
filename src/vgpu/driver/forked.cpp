#include "vgpu/driver/forked.hpp"

#include <pthread.h>

#include <atomic>

#include "vgpu/driver/log.hpp"

namespace flashmoe::vgpu::driver {

namespace {

std::atomic<bool> was_forked{false};

}  // namespace

void refuse_in_children() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { was_forked = true; });
  static_cast<void>(registered);
}

bool is_refused_child() {
  if (!was_forked) return false;
  log_once(
      "this process was forked after cuInit, and CUDA refuses every call in it: CUDA_ERROR_NOT_INITIALIZED (fix: start "
      "it "
      "by exec, in Python with multiprocessing's spawn, or fork before CUDA is used)");
  return true;
}

}  // namespace flashmoe::vgpu::driver
