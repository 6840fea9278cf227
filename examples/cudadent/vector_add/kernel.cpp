// The kernel under test: one C function that finds its tensors by name.
#include <cudadent/kernel.h>

extern "C" int vector_add(const cudadent_call* call) {
  const cudadent_tensor* c_tensor = cudadent_find_tensor(call, "c");
  const auto* __restrict a = static_cast<const float*>(cudadent_find_tensor(call, "a")->data);
  const auto* __restrict b = static_cast<const float*>(cudadent_find_tensor(call, "b")->data);
  auto* __restrict c = static_cast<float*>(c_tensor->data);
  const int64_t n = c_tensor->shape[0];
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];  // no aliasing: the compiler makes vectors of it
  return 0;
}
