// The worker's last words: when a kernel faults, one line says which signal, which address and where in the code, then
// the signal ends the process the ordinary way.
#pragma once

#include <string>

#include "workflow/runner/mapping.hpp"

namespace flashmoe::workflow {

// From now on, on `fd`. The regions may change under the pointers; they tell whose memory an address is.
void report_faults(int fd, const Mapping* inputs, const Mapping* outputs);
// The library whose frame people want to see, rather than memcpy's.
void report_faults_in(const std::string& library);

}  // namespace flashmoe::workflow
