// .loc with its call site, .file, and the names in .debug_str (PTX ISA 11.5).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vgpu/ptx/cursor.hpp"

namespace flashmoe::vgpu::ptx {

// One .loc before the module's end is known: the names stand behind the functions that use them.
struct RawLocation {
  std::array<int, 3> place{};  // file, line, column
  std::string_view label{};    // function_name
  std::uint64_t label_offset = 0;
  bool is_inlined = false;
  std::array<int, 3> inlined_at{};
};

class DebugInfo {
 public:
  // Each at its keyword.
  [[nodiscard]] RawLocation parse_loc(Cursor& cursor);
  [[nodiscard]] File parse_file(Cursor& cursor);
  void parse_section(Cursor& cursor);

  // The .locs of one function in order: names resolved, call sites chained.
  [[nodiscard]] std::vector<SourceLocation> resolve(const std::vector<RawLocation>& raw) const;

 private:
  void parse_strings(Cursor& cursor);
  [[nodiscard]] std::string name_of(const RawLocation& location) const;

  std::unordered_map<std::string_view, std::size_t> labels_{};  // of .debug_str: where each begins in bytes_
  std::string bytes_{};
};

}  // namespace flashmoe::vgpu::ptx
