#include "vgpu/observe/source_place.hpp"

#include <charconv>
#include <string_view>

#include "vgpu/ir/readable_name.hpp"

namespace flashmoe::vgpu::observe {
namespace {

bool is_toolkit_header(std::string_view file) {
  return file.find("/targets/") != std::string_view::npos || file.find("/cuda/include/") != std::string_view::npos ||
         file.find("/nvidia/") != std::string_view::npos;
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
