// Numbers that a person may set for a test, as its first comment says.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace flashmoe::testing {

inline uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace flashmoe::testing
