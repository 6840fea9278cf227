// What the driver says beside its return codes. VGPU_LOG: unset or "stderr", "off", or a file that is appended to.
// VGPU_LOG_CALLS=1 also writes one line per API call.
#pragma once

#include <string>
#include <string_view>

namespace flashmoe::vgpu::driver {

void log_line(std::string_view text);
// The same text only once in the life of the process: for what a program asks for in a loop.
void log_once(const std::string& text);
void log_call(std::string_view function);

}  // namespace flashmoe::vgpu::driver
