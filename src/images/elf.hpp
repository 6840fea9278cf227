// A reader of ELF64 files, for cubins, objects and shared libraries alike. The bytes may be anything: every offset,
// size and index is checked before it is followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.hpp"

namespace flashmoe {

struct ElfSection {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint32_t info = 0;
  std::uint32_t link = 0;
  std::uint64_t size = 0;  // of NOBITS sections too, whose `bytes` are empty
  std::span<const std::byte> bytes;
};

struct ElfSymbol {
  std::string_view name;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
  std::uint16_t section = 0;  // 0: undefined
  std::uint8_t binding = 0;
  std::uint8_t type = 0;
  std::uint8_t other = 0;
  [[nodiscard]] bool undefined() const { return section == 0; }
};

// Views into the bytes it was read from, which must outlive it.
struct Elf {
  std::uint16_t machine = 0;
  std::uint16_t type = 0;
  std::uint32_t flags = 0;
  std::uint8_t abi = 0;
  std::uint8_t abi_version = 0;
  std::vector<ElfSection> sections;

  [[nodiscard]] const ElfSection* find(std::string_view name) const;
  // The symbols of the first table of this type (SHT_SYMTAB or SHT_DYNSYM); none when there is no such table.
  [[nodiscard]] std::vector<ElfSymbol> symbols(std::uint32_t table_type) const;
  // DT_NEEDED: the libraries a shared library asks the loader for.
  [[nodiscard]] std::vector<std::string_view> needed() const;
};

[[nodiscard]] Result<Elf> read_elf(std::span<const std::byte> bytes);
[[nodiscard]] Result<std::vector<std::byte>> read_bytes(const std::string& path);

// "foo(int)" for "_Z3fooi"; the name itself when it is not mangled.
[[nodiscard]] std::string demangled(std::string_view symbol);

}  // namespace flashmoe
