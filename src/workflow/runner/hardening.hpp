// What a process that holds foreign code gives up before it loads it.
#pragma once

#include <string>

namespace flashmoe::workflow {

// The controller's and the reference's memory, which hold expected values, cannot be opened by other processes.
void forbid_reading_my_memory();

// The worker cannot look into, trace, stop or kill any other process. Best effort where the kernel lacks a feature; the
// checks of the controller do not depend on it.
void forbid_touching_others();

// The same for an interpreter, which has to enter it by itself: programs for seccomp(2), in hexadecimal. What forbids
// processes waits for the imports, since some of them ask other programs.
struct ForeignFilters {
  long system_call = -1;  // the number of seccomp(2); -1: no filters on this architecture
  std::string touching_others{}, processes{};
};
[[nodiscard]] ForeignFilters filters_for(int process);

}  // namespace flashmoe::workflow
