// What to beat: the loop as one number at a time, which is what a compiler without vector instructions makes of it.
#include <cudadent/kernel.h>

#pragma GCC optimize("no-tree-vectorize")

extern "C" int one_at_a_time(const cudadent_call* call) {
  const cudadent_tensor* c = cudadent_find_tensor(call, "c");
  const auto* a = static_cast<const float*>(cudadent_find_tensor(call, "a")->data);
  const auto* b = static_cast<const float*>(cudadent_find_tensor(call, "b")->data);
  for (int64_t i = 0; i < c->shape[0]; ++i) static_cast<float*>(c->data)[i] = a[i] + b[i];
  return 0;
}
