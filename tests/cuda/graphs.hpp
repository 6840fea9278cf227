// The driver's functions of captures and graphs, which the library itself does not call.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <type_traits>

#include "runtime/driver.hpp"

namespace flashmoe::testing {

struct Graphs {
  using Code = runtime::cuda::Code;
  using Stream = runtime::cuda::StreamHandle;
  static constexpr Code capture_unsupported = 900, capture_invalidated = 901;

  Code (*begin)(Stream, runtime::cuda::CaptureMode mode);
  Code (*end)(Stream, void** graph);
  Code (*instantiate)(void** exec, void* graph, unsigned long long flags);
  Code (*launch)(void* exec, Stream);
  Code (*destroy_exec)(void* exec);
  Code (*destroy)(void* graph);

  explicit Graphs(const runtime::Driver& driver) {
    void* const library = dlopen(driver.library().c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) throw std::runtime_error(name);
    };
    find(begin, "cuStreamBeginCapture_v2");
    find(end, "cuStreamEndCapture");
    find(instantiate, "cuGraphInstantiateWithFlags");
    find(launch, "cuGraphLaunch");
    find(destroy_exec, "cuGraphExecDestroy");
    find(destroy, "cuGraphDestroy");
  }
};

}  // namespace flashmoe::testing
