// The files of a project that can take part in a verdict: sources, headers, modules that a Python callable may import,
// and cudadent.toml. Hashed before a kernel first runs and again after it, they tell whether the verdict is about them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// Every source that cudadent.toml names; some lie outside the project.
[[nodiscard]] std::vector<std::string> declared_sources(const Project& project);

using Fingerprint = std::map<std::string, std::string>;  // path in the project -> SHA-256

[[nodiscard]] Fingerprint fingerprint_of(const Project& project);
// All of it as one hash: the same files, the same hash. What compilers read from elsewhere is not in it.
[[nodiscard]] std::string sources_hash(const Project& project);
// Sentences: "numpy.py was not there before", "kernel.cpp was changed", "helper.py is gone".
[[nodiscard]] std::vector<std::string> changes(const Fingerprint& before, const Fingerprint& after);

}  // namespace flashmoe::workflow
