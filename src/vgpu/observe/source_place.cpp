#include "vgpu/observe/source_place.hpp"

#include <charconv>
#include <string_view>

#include "vgpu/ir/readable_name.hpp"

namespace flashmoe::vgpu::observe {
namespace {

bool is_toolkit_header(std::string_view file) {
  const auto has = [&](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (has("/targets/") || has("/cuda/include/") || has("/include/cccl/") || has("/nvidia/")) return true;
  constexpr std::string_view versioned = "/cuda-";  // .../cuda-13.0/include/...
  const std::size_t at = file.find(versioned);
  if (at == std::string_view::npos) return false;
  const std::size_t behind = file.find_first_not_of("0123456789.", at + versioned.size());
  return behind != std::string_view::npos && file.substr(behind).starts_with("/include/");
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

SourcePlace source_place(const ir::Kernel& kernel, const ir::InstInfo& info) {
  SourcePlace place;
  if (info.source_line <= 0 || static_cast<std::size_t>(info.source_file) >= kernel.files.size()) return place;
  place.file = kernel.files[static_cast<std::size_t>(info.source_file)];
  place.line = info.source_line;
  place.inlined = ir::readable_names(info.inlined);
  if (info.inlined.empty() || !is_toolkit_header(place.file)) return place;

  // "header.hpp:112 in atomicAdd, inlined at kernel.cu:7": the first call site outside the toolkit.
  constexpr std::string_view mark = "inlined at ";
  std::string_view rest = info.inlined;
  for (std::size_t at = rest.find(mark); at != std::string_view::npos; at = rest.find(mark)) {
    rest.remove_prefix(at + mark.size());
    const std::size_t colon = rest.find(':');
    if (colon == std::string_view::npos) break;
    const std::string_view name = rest.substr(0, colon);
    int line = 0;
    std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), line);
    for (const std::string& file : kernel.files) {
      const bool same = file == name || base_name(file) == base_name(name);
      if (!same || file.empty() || is_toolkit_header(file) || line <= 0) continue;
      place = {file, line, ""};
      return place;
    }
  }
  return place;
}

}  // namespace flashmoe::vgpu::observe
