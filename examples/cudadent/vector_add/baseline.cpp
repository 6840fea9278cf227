// What to beat: two passes over memory, copy and then add, one number at a time.
#include <cudadent/kernel.h>

#pragma GCC optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns")

extern "C" int copy_then_add(const cudadent_call* call) {
  const cudadent_tensor* c = cudadent_find_tensor(call, "c");
  const auto* a = static_cast<const float*>(cudadent_find_tensor(call, "a")->data);
  const auto* b = static_cast<const float*>(cudadent_find_tensor(call, "b")->data);
  for (int64_t i = 0; i < c->shape[0]; ++i) static_cast<float*>(c->data)[i] = a[i];
  for (int64_t i = 0; i < c->shape[0]; ++i) static_cast<float*>(c->data)[i] += b[i];
  return 0;
}
