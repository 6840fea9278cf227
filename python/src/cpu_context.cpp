#include "cpu_context.hpp"

namespace flashmoe::python {

const fms_context* cpu_context(Failure& failure) {
  struct Created {
    fms_context* context = nullptr;
    fms_error error{};
    Created() {
      if (fms_context_create(nullptr, &context, &error) != FMS_OK) {
        context = nullptr;
      }
    }
  };
  static const Created created;  // never destroyed with the library still in use: it holds no resources of its own
  if (created.context == nullptr) {
    fail_in_library(failure, created.error);
  }
  return created.context;
}
}  // namespace flashmoe::python
