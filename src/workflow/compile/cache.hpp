// What was built before, by the content of everything that went into it: a directory <root>/<hash> with the product
// and, beside it, what its bytes hashed to when it was built.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

[[nodiscard]] std::filesystem::path cache_root(const Project& project, const BuildOptions& options);

// The product's SHA-256; unset unless it still is, byte for byte, what was built.
[[nodiscard]] std::optional<std::string> cached_hash(const std::filesystem::path& product,
                                                     const std::filesystem::path& note);
// `more` are further texts for people who look there: name, value.
void note_built(const std::filesystem::path& note, const std::string& content_hash,
                std::initializer_list<std::pair<const char*, std::string>> more);

}  // namespace flashmoe::workflow
