// The GPUs of the table as data for programs.
#pragma once

#include "devices/device.hpp"
#include "support/json.hpp"

namespace flashmoe::workflow {

// Every fact with its source, "unverified" or "unknown"; pipe rates with the clocks they come to.
[[nodiscard]] Json to_json(const Gpu& gpu);
[[nodiscard]] Json known_gpus();

}  // namespace flashmoe::workflow
