// What one call leaves for the next. Under VGPU_CHECK=leftovers a call ends with cuCtxSynchronize, and must not depend
// on the ones before: bytes of __device__ variables that differ from what the module was loaded with count as never set
// from then on, so that initcheck names whoever reads them; memory that device code kept from malloc is a finding. A
// variable that is back at its first value (a counter that the last CTA resets) is as good as new.
#pragma once

#include "vgpu/driver/state.hpp"

namespace flashmoe::vgpu::driver {

// Nothing happens unless the check is asked for.
void call_ends(const State& all, const Context& context);

}  // namespace flashmoe::vgpu::driver
