// The cubins of a library that was measured: what its .nv_fatbin holds for some architectures and of some kernels.
//
//   cut_cubins LIBRARY DIRECTORY ARCHITECTURES NAME...     cut_cubins libtorch_cuda.so out 80,86 flash_fwd_kernel
//
// Writes DIRECTORY/<number>.sm_<architecture>.cubin, and one line a kernel whose name has one of the NAMEs in it: the
// file, registers, static shared memory, the kernel's symbol.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "images/cubin.hpp"
#include "images/elf.hpp"
#include "images/fatbin.hpp"

namespace flashmoe {
namespace {

struct Wish {
  std::vector<int> architectures;
  std::vector<std::string_view> names;

  [[nodiscard]] bool wants(const FatbinEntry& entry) const {
    return entry.kind == FatbinEntry::Kind::cubin && std::ranges::find(architectures, entry.sm) != architectures.end();
  }
  [[nodiscard]] bool wants(std::string_view name) const {
    return std::ranges::any_of(names, [&](std::string_view part) { return name.find(part) != name.npos; });
  }
};

bool begins_fatbin(std::span<const std::byte> bytes) {
  std::uint32_t magic = 0;
  if (bytes.size() < fatbin_header_bytes) return false;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == fatbin_magic;
}

// Cubins that cannot be read are passed over with a line on stderr: a library has thousands, and the one that is missed
// is missed by name later.
void write_wanted(const FatbinEntry& entry, const Wish& wish, const std::string& directory, int& written) {
  const std::string_view text(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
  if (!wish.wants(text)) return;
  const auto cubin = read_cubin(entry.bytes);
  if (!cubin) return fmt::print(stderr, "passed over: {}\n", cubin.error().to_string());
  const std::string file = fmt::format("{}.sm_{}.cubin", written, entry.sm);
  bool has_one = false;
  for (const CubinKernel& kernel : cubin->kernels) {
    if (!wish.wants(kernel.name)) continue;
    has_one = true;
    fmt::print("{} {} {} {}\n", file, kernel.registers, kernel.static_shared_bytes, kernel.name);
  }
  if (!has_one) return;
  std::ofstream(directory + "/" + file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  ++written;
}

Result<Done> cut(const std::string& library, const std::string& directory, const Wish& wish) {
  const auto bytes = read_bytes(library);
  if (!bytes) return bytes.error();
  const auto elf = read_elf(*bytes);
  if (!elf) return elf.error();
  const ElfSection* section = elf->find(".nv_fatbin");
  if (section == nullptr) return Diagnostic{.message = library + " has no section .nv_fatbin"};
  int written = 0;
  for (std::size_t at = 0; at < section->bytes.size();) {
    const auto rest = section->bytes.subspan(at);
    if (!begins_fatbin(rest)) {
      at += 8;  // fatbins are aligned, with zeros between them
      continue;
    }
    const auto entries = read_fatbin(rest);
    if (!entries) return entries.error();
    for (const FatbinEntry& entry : *entries)
      if (wish.wants(entry)) write_wanted(entry, wish, directory, written);
    at += *fatbin_length(rest);
  }
  return Done{};
}

}  // namespace
}  // namespace flashmoe

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: {} LIBRARY DIRECTORY ARCHITECTURE,... NAME...\n", argv[0]);
    return 2;
  }
  flashmoe::Wish wish;
  for (std::string_view rest = argv[3]; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    wish.architectures.push_back(std::atoi(std::string(rest.substr(0, comma)).c_str()));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  wish.names.assign(argv + 4, argv + argc);
  const auto done = flashmoe::cut(argv[1], argv[2], wish);
  if (!done) fmt::print(stderr, "{}\n", done.error().to_string());
  return done ? 0 : 1;
}
