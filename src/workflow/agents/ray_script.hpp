// The program that counts candidates as tasks of a Ray cluster, in the user's Python.
#pragma once

namespace flashmoe::workflow {

extern const char* const ray_script;

}  // namespace flashmoe::workflow
