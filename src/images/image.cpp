#include "images/image.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "images/elf.hpp"
#include "images/fatbin.hpp"
#include "images/target.hpp"

namespace flashmoe {
namespace {

constexpr char container_magic[8] = {'V', 'G', 'P', 'U', 'L', 'I', 'N', 'K'};
constexpr std::size_t container_header_bytes = sizeof(container_magic) + 2 * sizeof(std::uint64_t);

std::uint64_t number_at(const void* data, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const char*>(data) + offset, sizeof(value));
  return value;
}

Diagnostic no_ptx(std::string what, std::string fix) {
  return {.message = std::move(what), .fix = std::move(fix)};
}

// The end of the last thing the header points at: an ELF file says nowhere how long it is.
std::size_t elf_length(const void* data) {
  Elf64_Ehdr header{};
  std::memcpy(&header, data, sizeof(header));
  std::uint64_t end =
      std::max<std::uint64_t>(sizeof(header), header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize);
  end = std::max(end, header.e_phoff + std::uint64_t{header.e_phnum} * header.e_phentsize);
  if (header.e_shentsize == sizeof(Elf64_Shdr))
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section{};
      std::memcpy(&section, static_cast<const char*>(data) + header.e_shoff + i * sizeof(section), sizeof(section));
      if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
    }
  return end;
}

Result<Image> from_cubin(std::span<const std::byte> bytes) {
  auto ptx = ptx_of_cubin(bytes);
  if (!ptx)
    return no_ptx("a cubin without its PTX: the virtual GPU executes PTX, not SASS",
                  "build with -lineinfo, which keeps the PTX in the cubin, or ship PTX (-gencode "
                  "arch=compute_80,code=compute_80)");
  return Image{.ptx = {std::move(*ptx)}, .cubin = {bytes.begin(), bytes.end()}, .origin = "cubin with its PTX"};
}

Result<Image> from_fatbin(std::span<const std::byte> bytes, int sm) {
  const auto entries = read_fatbin(bytes);
  if (!entries) return entries.error();
  const FatbinEntry* ptx = nullptr;
  const FatbinEntry* cubin = nullptr;
  std::string there;
  for (const FatbinEntry& entry : *entries) {
    const bool is_ptx = entry.kind == FatbinEntry::Kind::ptx;
    there += fmt::format("{}{}_{}", there.empty() ? "" : ", ", is_ptx ? "compute" : "sm", entry.sm);
    if (entry.sm > sm) continue;
    // PTX runs on anything newer unless its target says otherwise, a cubin only on its own generation.
    if (is_ptx && (ptx == nullptr || entry.sm > ptx->sm) && target_runs_on(target_of(entry.text()), sm)) ptx = &entry;
    if (entry.kind == FatbinEntry::Kind::cubin && entry.sm / 10 == sm / 10 &&
        (cubin == nullptr || entry.sm > cubin->sm))
      cubin = &entry;
  }
  Image image;
  if (cubin != nullptr) image.cubin = cubin->bytes;
  if (ptx != nullptr) {
    image.ptx = {ptx->text()};
    image.origin = fmt::format("fatbin, PTX for compute_{}", ptx->sm);
    return image;
  }
  if (cubin != nullptr) return from_cubin(cubin->bytes);
  return no_ptx(fmt::format("a fatbin with nothing for sm_{}; it holds {}", sm, there),
                fmt::format("compile with -gencode arch=compute_{0},code=compute_{0} or an older compute_", sm));
}

Result<Image> from_container(std::span<const std::byte> bytes) {
  const Diagnostic too_short{.message = "a linked image that ends too early"};
  if (bytes.size() < container_header_bytes) return too_short;
  const std::uint64_t total = number_at(bytes.data(), sizeof(container_magic));
  const std::uint64_t count = number_at(bytes.data(), sizeof(container_magic) + sizeof(std::uint64_t));
  if (total > bytes.size() || total < container_header_bytes) return too_short;
  Image image{.origin = "linked PTX"};
  std::size_t at = container_header_bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (total - at < sizeof(std::uint64_t)) return too_short;
    const std::uint64_t length = number_at(bytes.data(), at);
    at += sizeof(std::uint64_t);
    if (length > total - at) return too_short;
    image.ptx.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, length);
    at += length;
  }
  return image;
}

enum class Kind { wrapper, fatbin, elf, container, text };

// Byte by byte and no further than it fits, because a short PTX text may end at the last mapped byte.
Kind kind_of(const void* data, std::size_t length) {
  const auto starts_with = [&](const void* magic, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (i >= length || static_cast<const char*>(data)[i] != static_cast<const char*>(magic)[i]) return false;
    return true;
  };
  if (starts_with(&fatbin_wrapper_magic, sizeof(fatbin_wrapper_magic))) return Kind::wrapper;
  if (starts_with(&fatbin_magic, sizeof(fatbin_magic))) return Kind::fatbin;
  if (starts_with(ELFMAG, SELFMAG)) return Kind::elf;
  if (starts_with(container_magic, sizeof(container_magic))) return Kind::container;
  return Kind::text;
}

}  // namespace

Result<Image> read_image(std::span<const std::byte> bytes, int sm) {
  switch (kind_of(bytes.data(), bytes.size())) {
    case Kind::wrapper:
      return Diagnostic{.message =
                            "the wrapper of a fatbin, which holds a pointer into a program's memory; a file has "
                            "none"};
    case Kind::fatbin:
      return from_fatbin(bytes, sm);
    case Kind::elf:
      return from_cubin(bytes);
    case Kind::container:
      return from_container(bytes);
    case Kind::text:
      break;
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return Image{.ptx = {std::string(text, strnlen(text, bytes.size()))}, .origin = "PTX"};
}

Result<Image> read_image_at(const void* memory, int sm) {
  const auto* bytes = static_cast<const std::byte*>(memory);
  Kind kind = kind_of(memory, std::string::npos);
  if (kind == Kind::wrapper) {
    bytes = reinterpret_cast<const std::byte*>(number_at(memory, 8));
    kind = bytes == nullptr ? Kind::wrapper : kind_of(bytes, std::string::npos);
    if (kind == Kind::wrapper) return Diagnostic{.message = "the wrapper of a fatbin, which points at none"};
  }
  switch (kind) {
    case Kind::fatbin: {
      const auto length = fatbin_length({bytes, fatbin_header_bytes});
      if (!length) return length.error();
      return read_image({bytes, *length}, sm);
    }
    case Kind::elf:
      return read_image({bytes, elf_length(bytes)}, sm);
    case Kind::container:
      return read_image({bytes, std::max(container_header_bytes, number_at(bytes, sizeof(container_magic)))}, sm);
    default:
      return read_image({bytes, std::strlen(reinterpret_cast<const char*>(bytes))}, sm);
  }
}

std::optional<std::string> ptx_of_cubin(std::span<const std::byte> cubin) {
  const auto elf = read_elf(cubin);
  if (!elf) return std::nullopt;
  const ElfSection* section = elf->find(".nv_debug_ptx_txt");
  if (section == nullptr || section->bytes.empty()) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size());
  // ptxas ends each line with a zero, not with a line feed.
  for (char& character : text)
    if (character == '\0') character = '\n';
  return text.find(".version") == std::string::npos ? std::nullopt : std::optional(std::move(text));
}

std::vector<std::byte> link_container(const std::vector<std::string>& ptx) {
  std::vector<std::byte> bytes;
  const auto append = [&](const void* data, std::size_t size) {
    const std::size_t end = bytes.size();
    bytes.resize(end + size);
    if (size != 0) std::memcpy(bytes.data() + end, data, size);
  };
  std::uint64_t total = container_header_bytes;
  for (const std::string& text : ptx) total += sizeof(std::uint64_t) + text.size();
  const std::uint64_t count = ptx.size();
  append(container_magic, sizeof(container_magic));
  append(&total, sizeof(total));
  append(&count, sizeof(count));
  for (const std::string& text : ptx) {
    const std::uint64_t size = text.size();
    append(&size, sizeof(size));
    append(text.data(), text.size());
  }
  return bytes;
}

}  // namespace flashmoe
