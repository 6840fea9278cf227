// What the preprocessor makes of a source, asked once for as long as nothing changes of what it read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace flashmoe::workflow {

// The files that the line markers of preprocessed text name, each once, as they are written there.
[[nodiscard]] std::vector<std::string> files_read(const std::string& preprocessed);

// Runs the preprocessor that `command` is, or returns what it printed before in this process: the same words in the
// same directory and environment, and every file it read, the directories these lie in and those that -I names are
// the same to the file system (a new header beside an old one may hide another).
[[nodiscard]] Result<Finished> preprocess(const Command& command, const std::function<void()>& idle = {});

}  // namespace flashmoe::workflow
