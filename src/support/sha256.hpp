// SHA-256, for the identity of files and records.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "support/result.hpp"

namespace flashmoe {

[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(const std::string& text);
[[nodiscard]] Result<std::string> sha256_of_file(const std::string& path);

}  // namespace flashmoe
