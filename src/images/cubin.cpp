// The layout is NVIDIA's and not documented as a whole; what is used here was found by compiling kernels whose figures
// are known and is held by tests against the toolkit: the attributes of .nv.info, the register count in the text
// section's sh_info, and the two local-memory instructions.
#include "images/cubin.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>

#include "images/elf.hpp"

namespace flashmoe {
namespace {

constexpr std::uint16_t machine_cuda = 190;     // EM_CUDA
constexpr std::uint8_t symbol_is_entry = 0x10;  // st_other: a __global__ function
constexpr std::uint8_t attribute_max_threads = 0x05;
constexpr std::uint8_t attribute_frame_size = 0x11;
constexpr std::uint8_t attribute_required_threads = 0x10;
constexpr std::uint8_t attribute_register_count = 0x2f;
constexpr std::uint8_t attribute_barriers = 0x4c;
constexpr std::uint8_t attribute_instruction_notes = 0x55;  // pairs (kind, offset in the code)
constexpr std::uint32_t note_spill = 1;
constexpr std::uint8_t format_sized = 4;  // a 16-bit size and that many bytes; the other formats hold a value inline

constexpr std::uint64_t opcode_store_local = 0x387;
constexpr std::uint64_t opcode_load_local = 0x983;

std::optional<std::uint32_t> word_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(std::uint32_t)) return std::nullopt;
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

struct Attribute {
  std::uint8_t id = 0;
  std::uint16_t value = 0;  // of the inline formats
  std::span<const std::byte> bytes;
};

// A truncated record ends the list: what came before it still counts.
std::vector<Attribute> attributes_of(const ElfSection& section) {
  std::vector<Attribute> found;
  std::uint64_t at = 0;
  while (section.bytes.size() - at >= 4) {
    const auto format = std::to_integer<std::uint8_t>(section.bytes[at]);
    const auto id = std::to_integer<std::uint8_t>(section.bytes[at + 1]);
    const std::uint64_t size = std::to_integer<std::uint64_t>(section.bytes[at + 2]) |
                               std::to_integer<std::uint64_t>(section.bytes[at + 3]) << 8;
    at += 4;
    if (format != format_sized) {
      found.push_back({id, static_cast<std::uint16_t>(size), {}});
      continue;
    }
    if (section.bytes.size() - at < size) break;
    found.push_back({id, 0, section.bytes.subspan(at, size)});
    at += size;
  }
  return found;
}

// Bytes a local load or store moves; 0 for any other instruction.
struct LocalAccess {
  std::int64_t stored = 0;
  std::int64_t loaded = 0;
};

LocalAccess local_access(std::span<const std::byte> code, std::uint64_t offset) {
  const auto low = word_at(code, offset);
  const auto high = word_at(code, offset + 8);
  if (!low || !high) return {};
  const std::uint64_t opcode = *low & 0xfff;
  if (opcode != opcode_store_local && opcode != opcode_load_local) return {};
  constexpr std::int64_t bytes_by_width[] = {1, 1, 2, 2, 4, 8, 16, 16};
  const std::int64_t bytes = bytes_by_width[(*high >> 9) & 7];
  return opcode == opcode_store_local ? LocalAccess{bytes, 0} : LocalAccess{0, bytes};
}

void read_kernel_info(const ElfSection& info, std::span<const std::byte> code, CubinKernel& kernel) {
  for (const Attribute& attribute : attributes_of(info)) {
    if (attribute.id == attribute_max_threads || attribute.id == attribute_required_threads) {
      std::int64_t threads = 1;
      for (std::uint64_t at = 0; at < 12; at += 4) threads *= std::min(word_at(attribute.bytes, at).value_or(1), 4096U);
      kernel.max_threads = static_cast<int>(std::min<std::int64_t>(threads, 4096));
    } else if (attribute.id == attribute_barriers) {
      kernel.barriers = attribute.value & 0xff;
    } else if (attribute.id == attribute_instruction_notes) {
      for (std::uint64_t at = 0; at + 8 <= attribute.bytes.size(); at += 8) {
        if (word_at(attribute.bytes, at) != note_spill) continue;
        const auto access = local_access(code, word_at(attribute.bytes, at + 4).value_or(0));
        kernel.spill_store_bytes += access.stored;
        kernel.spill_load_bytes += access.loaded;
      }
    }
  }
}

// From sm_90 on a kernel's shared section begins with the part that the driver keeps for itself.
std::uint64_t reserved_shared_bytes(const Elf& elf, const std::vector<ElfSymbol>& symbols) {
  if (elf.find(".nv.shared.reserved.0") == nullptr) return 0;
  for (const ElfSymbol& symbol : symbols)
    if (symbol.name == ".nv.reservedSmem.cap") return symbol.value;
  return 1024;
}

}  // namespace

Result<Cubin> read_cubin(std::span<const std::byte> bytes) {
  const auto elf = read_elf(bytes);
  if (!elf) return elf.error();
  if (elf->machine != machine_cuda)
    return Diagnostic{.message = fmt::format("an ELF file, but for machine {} and not a cubin", elf->machine),
                      .fix = "compile with nvcc -cubin"};
  Cubin cubin;
  // Since CUDA 13 (ABI version 8) the architecture is the second byte of the flags, before that the first.
  cubin.sm = static_cast<int>(elf->abi_version >= 8 ? (elf->flags >> 8) & 0xff : elf->flags & 0xff);

  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> frame_and_registers;  // by symbol number
  if (const ElfSection* info = elf->find(".nv.info"))
    for (const Attribute& attribute : attributes_of(*info)) {
      const auto symbol = word_at(attribute.bytes, 0);
      const auto value = word_at(attribute.bytes, 4);
      if (!symbol || !value) continue;
      if (attribute.id == attribute_frame_size) frame_and_registers[*symbol].first = *value;
      if (attribute.id == attribute_register_count) frame_and_registers[*symbol].second = *value;
    }

  const auto symbols = elf->symbols(SHT_SYMTAB);
  const std::uint64_t reserved = reserved_shared_bytes(*elf, symbols);
  std::uint32_t number = 0;
  for (const ElfSymbol& symbol : symbols) {
    ++number;  // the first symbol, number 0, is never listed
    if (symbol.type != STT_FUNC) continue;
    if (symbol.undefined()) {
      cubin.undefined.emplace_back(symbol.name);
      continue;
    }
    if ((symbol.other & symbol_is_entry) == 0) {
      cubin.functions.emplace_back(symbol.name);
      continue;
    }
    CubinKernel kernel{.name = std::string(symbol.name), .demangled = demangled(symbol.name)};
    if (symbol.section < elf->sections.size()) {
      const ElfSection& text = elf->sections[symbol.section];
      kernel.registers = static_cast<int>(text.info >> 24);
      kernel.code_bytes = static_cast<std::int64_t>(text.bytes.size());
      if (const ElfSection* info = elf->find(fmt::format(".nv.info.{}", symbol.name)))
        read_kernel_info(*info, text.bytes, kernel);
    }
    if (const auto known = frame_and_registers.find(number); known != frame_and_registers.end()) {
      kernel.frame_bytes = known->second.first;
      if (known->second.second != 0) kernel.registers = static_cast<int>(std::min(known->second.second, 256U));
    }
    if (const ElfSection* shared = elf->find(fmt::format(".nv.shared.{}", symbol.name)))
      kernel.static_shared_bytes =
          static_cast<std::int64_t>(std::min<std::uint64_t>(shared->size - std::min(shared->size, reserved), 1U << 30));
    cubin.kernels.push_back(std::move(kernel));
  }
  return cubin;
}

}  // namespace flashmoe
