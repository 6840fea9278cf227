// Which ISA levels this machine has, and getting the kernel's permission to use AMX tiles.
#pragma once

#include "flashmoe/flashmoe.h"

namespace flashmoe::cpu {

// The highest level that works here: the CPU has it, and for AMX the operating system granted the tile state.
fms_cpu_isa best_isa();

const char* isa_name(fms_cpu_isa isa);

// FMS_ISA_AUTO when the name is unknown.
fms_cpu_isa isa_from_name(const char* name);

}  // namespace flashmoe::cpu
