// libfms_oracle.so: the oracle for tests that are not written in C++ (ctypes). Built for tests, never installed.
#include "kernels/reference/attention.hpp"

extern "C" {

FMS_API void fms_oracle_attention(const fms_attention_problem* problem, const fms_attention_args* args, double* o,
                                  double* lse) {
  flashmoe::reference::AttentionOutputs outputs;
  outputs.o = o;
  outputs.lse = lse;
  flashmoe::reference::attention(*problem, *args, outputs);
}

FMS_API void fms_oracle_merge(const fms_merge_problem* problem, const void* o_a, const float* lse_a, const void* o_b,
                              const float* lse_b, double* o, double* lse) {
  flashmoe::reference::merge(*problem, o_a, lse_a, o_b, lse_b, o, lse);
}

}  // extern "C"
