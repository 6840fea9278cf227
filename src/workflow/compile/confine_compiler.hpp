// What a compiler may touch while it works on somebody's sources with somebody's flags.
#pragma once

#include <filesystem>

#include "support/process.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// `command.argv` begins with the compiler. `scratch` is all it may write to; empty: nothing.
void confine_compiler(Command& command, const Project& project, const std::filesystem::path& scratch);

}  // namespace flashmoe::workflow
