#include "support/status.hpp"

#include <cstdarg>
#include <cstdio>

namespace flashmoe {

fms_status fail(fms_error* error, fms_status code, const char* argument, const char* format, ...) {
  if (error == nullptr) return code;
  error->code = code;
  std::snprintf(error->argument, sizeof error->argument, "%s", argument);
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(error->message, sizeof error->message, format, values);
  va_end(values);
  return code;
}

}  // namespace flashmoe
