// The Python worker, as text: it speaks the protocol of worker.hpp for a callable in a .py file.
#pragma once

namespace flashmoe::workflow {

// Run as `python -c <this>`. Requests beyond worker.hpp: "prepare" (untimed: entries named make_* return their
// zero-argument callable) and "publish" (untimed, trusted sessions: returned values are copied to the outputs).
extern const char* const python_runner_script;

}  // namespace flashmoe::workflow
