// How errors travel inside the library: functions return fms_status and describe the failure through `fail`.
// Nothing is allocated, and a caller that passed no fms_error pays nothing.
#pragma once

#include "flashmoe/flashmoe.h"

namespace flashmoe {

// Fills `error` (if any) and returns `code`, so that a check reads `return fail(error, FMS_INVALID_ARGUMENT, ...)`.
// The message should name the value and what is allowed; `argument` names the field.
__attribute__((format(printf, 4, 5))) fms_status fail(fms_error* error, fms_status code, const char* argument,
                                                      const char* format, ...);

}  // namespace flashmoe
