// How a worker ended, told to people: the signal, the address, the frame; and whether it was memory that ran out. What
// the worker says about itself is a hint: it is bounded, and shown without control characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "support/process.hpp"

namespace flashmoe::workflow {

// " at address 0x10, in row_sum() at kernel.cpp:12" from the worker's last line; empty when nothing is known. Lines
// come from the debug information of `library`, as far as addr2line is here and the frame is in it.
[[nodiscard]] std::string place_of(const std::string& last_words, const std::string& library);

// How often this machine has killed for want of memory; unset: it does not say.
[[nodiscard]] std::optional<std::uint64_t> memory_kills();
// Whether it was the memory: killed while the machine killed for it, or ended by an allocation that nobody caught.
[[nodiscard]] bool ran_out_of_memory(const Finished& how, std::optional<std::uint64_t> kills_before,
                                     std::optional<std::uint64_t> kills_now);

}  // namespace flashmoe::workflow
