// The layout is NVIDIA's and not documented; the fields used here were found by packing known files with every
// --compress-mode of the toolkit's fatbinary, and fatbin_test holds them against it.
#include "images/fatbin.hpp"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>

namespace flashmoe {
namespace {

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t entries_bytes;
};
static_assert(sizeof(Header) == fatbin_header_bytes);

struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t padded_bytes;      // to the next entry
  std::uint32_t compressed_bytes;  // 0 when it is not compressed
  std::uint32_t unused[2];
  std::uint32_t sm;
  std::uint32_t bits;
  std::uint32_t unused_2;
  std::uint64_t flags;
  std::uint64_t unused_3;
  std::uint64_t plain_bytes;  // 0 when it is not compressed
};
static_assert(sizeof(EntryHeader) == 64);

constexpr std::uint64_t flag_lz4 = 0x2000;
constexpr std::uint64_t flag_zstd = 0x8000;
// No image of one architecture is near it; a damaged size must not ask for the whole machine.
constexpr std::uint64_t most_plain_bytes = std::uint64_t{1} << 30;
// What a byte can become at most. LZ4: a length byte of 255 (LZ4 block format). Zstandard: a block of 4 bytes that
// repeats one byte 128 KB (RFC 8878, 3.1.1.2.2).
constexpr std::uint64_t most_per_byte_lz4 = 255, most_per_byte_zstd = 32 * 1024;

Diagnostic broken(std::string what) {
  return {.message = "not a readable fatbin: " + std::move(what)};
}

Result<std::vector<std::byte>> decompressed(const EntryHeader& entry, std::span<const std::byte> payload) {
  if ((entry.flags & (flag_lz4 | flag_zstd)) == 0) return std::vector<std::byte>(payload.begin(), payload.end());
  if (entry.compressed_bytes > payload.size()) return broken("an entry is longer than its place");
  if (entry.plain_bytes > most_plain_bytes)
    return broken(fmt::format("an entry of {} bytes, at most {} are read", entry.plain_bytes, most_plain_bytes));
  const bool is_zstd = (entry.flags & flag_zstd) != 0;
  if (entry.plain_bytes / (is_zstd ? most_per_byte_zstd : most_per_byte_lz4) > entry.compressed_bytes)
    return broken(fmt::format("{} bytes cannot hold an entry of {}", entry.compressed_bytes, entry.plain_bytes));
  std::vector<std::byte> plain(entry.plain_bytes);
  if (is_zstd) {
    const std::size_t size = ZSTD_decompress(plain.data(), plain.size(), payload.data(), entry.compressed_bytes);
    if (ZSTD_isError(size) != 0 || size != plain.size()) return broken("an entry does not decompress (zstd)");
  } else {
    const int size =
        LZ4_decompress_safe(reinterpret_cast<const char*>(payload.data()), reinterpret_cast<char*>(plain.data()),
                            static_cast<int>(entry.compressed_bytes), static_cast<int>(plain.size()));
    if (size < 0 || static_cast<std::size_t>(size) != plain.size()) return broken("an entry does not decompress (LZ4)");
  }
  return plain;
}

}  // namespace

std::string FatbinEntry::text() const {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Entries are padded with zeros.
  if (const auto end = text.find('\0'); end != std::string::npos) text.resize(end);
  return text;
}

Result<std::uint64_t> fatbin_length(std::span<const std::byte> header) {
  Header known{};
  if (header.size() < sizeof(known)) return broken("shorter than its header");
  std::memcpy(&known, header.data(), sizeof(known));
  if (known.magic != fatbin_magic) return broken("the magic number is missing");
  if (known.version != 1 || known.header_bytes < sizeof(known))
    return broken(fmt::format("version {} with a header of {} bytes", known.version, known.header_bytes));
  if (known.entries_bytes > ~std::uint64_t{0} - known.header_bytes)
    return broken(fmt::format("entries of {} bytes", known.entries_bytes));
  return known.header_bytes + known.entries_bytes;
}

Result<std::vector<FatbinEntry>> read_fatbin(std::span<const std::byte> bytes) {
  const auto length = fatbin_length(bytes);
  if (!length) return length.error();
  if (*length > bytes.size()) return broken("it ends before its last entry");
  std::vector<FatbinEntry> entries;
  std::uint16_t first = 0;
  std::memcpy(&first, bytes.data() + offsetof(Header, header_bytes), sizeof(first));
  std::uint64_t at = first;
  while (*length - at >= sizeof(EntryHeader)) {
    EntryHeader entry{};
    std::memcpy(&entry, bytes.data() + at, sizeof(entry));
    const std::uint64_t room = *length - at;
    if (entry.header_bytes < sizeof(entry) || entry.header_bytes > room ||
        entry.padded_bytes > room - entry.header_bytes)
      return broken("an entry lies outside of it");
    auto plain = decompressed(entry, bytes.subspan(at + entry.header_bytes, entry.padded_bytes));
    if (!plain) return plain.error();
    entries.push_back({.kind = entry.kind == 1   ? FatbinEntry::Kind::ptx
                               : entry.kind == 2 ? FatbinEntry::Kind::cubin
                                                 : FatbinEntry::Kind::other,
                       .sm = static_cast<int>(entry.sm),
                       .bytes = std::move(*plain)});
    at += entry.header_bytes + entry.padded_bytes;
  }
  return entries;
}

}  // namespace flashmoe
