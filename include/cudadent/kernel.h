/* What a kernel project's CPU entry points look like: one C function per role (kernel, reference, baseline) that gets
 * its tensors and parameters in one struct. Plain C, so that a project needs this header and nothing else. */
#ifndef CUDADENT_KERNEL_H
#define CUDADENT_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDADENT_MAX_RANK = 8 };

typedef enum cudadent_dtype {
  CUDADENT_F64 = 0,
  CUDADENT_F32 = 1,
  CUDADENT_F16 = 2,
  CUDADENT_BF16 = 3,
  CUDADENT_I32 = 4,
  CUDADENT_I64 = 5,
  CUDADENT_U8 = 6
} cudadent_dtype;

typedef struct cudadent_tensor {
  const char* name;
  void* data; /* inputs are read-only by contract; the caller checks that they were left as they were. NULL for a
                 stage that nobody asked for, as in timed calls */
  int32_t dtype;
  int32_t rank;
  int64_t shape[CUDADENT_MAX_RANK];
  int64_t stride[CUDADENT_MAX_RANK]; /* in elements */
} cudadent_tensor;

/* Every parameter of the workload: integers, numbers and booleans (0 or 1) alike. */
typedef struct cudadent_param {
  const char* name;
  double value;
} cudadent_param;

typedef struct cudadent_call {
  uint32_t struct_size;
  int32_t tensor_count; /* in the order of cudadent.toml: inputs, outputs and stages */
  int32_t param_count;
  int32_t threads; /* how many threads the entry may use */
  const cudadent_tensor* tensors;
  const cudadent_param* params;
  const char* variant; /* references only: NULL, or the name of the hypothesis to compute instead of the truth */
} cudadent_call;

/* Returns 0, or anything else when it cannot compute this call. */
typedef int (*cudadent_entry)(const cudadent_call* call);

static inline const cudadent_tensor* cudadent_find_tensor(const cudadent_call* call, const char* name) {
  for (int32_t i = 0; i < call->tensor_count; ++i) {
    const char* a = call->tensors[i].name;
    const char* b = name;
    while (*a && *a == *b) ++a, ++b;
    if (*a == *b) return &call->tensors[i];
  }
  return 0;
}

static inline double cudadent_param_or(const cudadent_call* call, const char* name, double otherwise) {
  for (int32_t i = 0; i < call->param_count; ++i) {
    const char* a = call->params[i].name;
    const char* b = name;
    while (*a && *a == *b) ++a, ++b;
    if (*a == *b) return call->params[i].value;
  }
  return otherwise;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CUDADENT_KERNEL_H */
