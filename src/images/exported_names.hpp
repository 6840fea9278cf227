// For tests that hold a list of names against a library.
#pragma once

#include <elf.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "images/elf.hpp"

namespace flashmoe {

// What the library exports, as far as `is_meant` takes it.
template <class Takes>
std::set<std::string> exported_names(const std::string& library, const Takes& is_meant) {
  std::set<std::string> names;
  const auto bytes = read_bytes(library);
  EXPECT_TRUE(bytes) << bytes.error().to_string();
  if (!bytes) return names;
  const auto elf = read_elf(*bytes);
  EXPECT_TRUE(elf) << elf.error().to_string();
  if (!elf) return names;
  for (const ElfSymbol& symbol : elf->symbols(SHT_DYNSYM))
    if (!symbol.undefined() && is_meant(symbol.name)) names.emplace(symbol.name);
  return names;
}

}  // namespace flashmoe
