// What a process that holds foreign code gives up before it loads it.
#pragma once

namespace flashmoe::workflow {

// The controller's and the reference's memory, which hold expected values, cannot be opened by other processes.
void forbid_reading_my_memory();

// The worker cannot look into, trace, stop or kill any other process. Best effort where the kernel lacks a feature; the
// checks of the controller do not depend on it.
void forbid_touching_others();

}  // namespace flashmoe::workflow
