#include "images/elf.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

namespace flashmoe {
namespace {

// A copy, because nothing in a file of unknown origin is known to be aligned.
template <class T>
std::optional<T> read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The zero-terminated text at `offset`; empty when it does not end within the table.
std::string_view text_at(std::span<const std::byte> table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto* begin = reinterpret_cast<const char*>(table.data()) + offset;
  const void* end = std::memchr(begin, 0, table.size() - offset);
  return end == nullptr ? std::string_view{} : std::string_view(begin, static_cast<const char*>(end) - begin);
}

Diagnostic broken(const char* what) {
  return {.message = std::string("not a readable ELF64 file: ") + what};
}

}  // namespace

Result<Elf> read_elf(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little, "structures are copied as they lie in the file");
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header) return broken("shorter than its header");
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return broken("the magic number is missing");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
    return broken("not 64-bit little-endian");
  Elf elf{.machine = header->e_machine,
          .type = header->e_type,
          .flags = header->e_flags,
          .abi = header->e_ident[EI_OSABI],
          .abi_version = header->e_ident[EI_ABIVERSION],
          .sections = {}};
  if (header->e_shnum == 0) return elf;
  if (header->e_shentsize != sizeof(Elf64_Shdr)) return broken("unexpected size of section headers");

  std::vector<std::uint64_t> name_offsets;
  for (std::uint32_t i = 0; i < header->e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(bytes, header->e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    if (!section || header->e_shoff > bytes.size()) return broken("its section headers lie outside of it");
    ElfSection one{.name = {},
                   .type = section->sh_type,
                   .info = section->sh_info,
                   .link = section->sh_link,
                   .size = section->sh_size,
                   .bytes = {}};
    if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL) {
      if (section->sh_offset > bytes.size() || section->sh_size > bytes.size() - section->sh_offset)
        return broken("a section lies outside of it");
      one.bytes = bytes.subspan(section->sh_offset, section->sh_size);
    }
    elf.sections.push_back(one);
    name_offsets.push_back(section->sh_name);
  }
  if (header->e_shstrndx >= elf.sections.size()) return broken("the table of section names is missing");
  const auto names = elf.sections[header->e_shstrndx].bytes;
  for (std::size_t i = 0; i < elf.sections.size(); ++i) elf.sections[i].name = text_at(names, name_offsets[i]);
  return elf;
}

const ElfSection* Elf::find(std::string_view name) const {
  for (const ElfSection& section : sections)
    if (section.name == name) return &section;
  return nullptr;
}

std::vector<ElfSymbol> Elf::symbols(std::uint32_t table_type) const {
  std::vector<ElfSymbol> found;
  for (const ElfSection& table : sections) {
    if (table.type != table_type || table.link >= sections.size()) continue;
    const auto names = sections[table.link].bytes;
    for (std::uint64_t at = sizeof(Elf64_Sym); at < table.bytes.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(table.bytes, at);
      if (!symbol) break;
      found.push_back({.name = text_at(names, symbol->st_name),
                       .value = symbol->st_value,
                       .size = symbol->st_size,
                       .section = symbol->st_shndx,
                       .binding = static_cast<std::uint8_t>(ELF64_ST_BIND(symbol->st_info)),
                       .type = static_cast<std::uint8_t>(ELF64_ST_TYPE(symbol->st_info)),
                       .other = symbol->st_other});
    }
    break;
  }
  return found;
}

std::vector<std::string_view> Elf::needed() const {
  std::vector<std::string_view> found;
  for (const ElfSection& table : sections) {
    if (table.type != SHT_DYNAMIC || table.link >= sections.size()) continue;
    for (std::uint64_t at = 0; at < table.bytes.size(); at += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(table.bytes, at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) found.push_back(text_at(sections[table.link].bytes, entry->d_un.d_val));
    }
  }
  return found;
}

Result<std::vector<std::byte>> read_bytes(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || !std::filesystem::is_regular_file(path, ignored))
    return Diagnostic{.message = "cannot read it", .fix = "check that the file is there", .file = path};
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) return Diagnostic{.message = "cannot read it", .fix = "check that it is a file", .file = path};
  return bytes;
}

std::string demangled(std::string_view symbol) {
  const std::string name(symbol);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

}  // namespace flashmoe
