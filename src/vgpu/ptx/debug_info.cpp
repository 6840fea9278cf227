#include "vgpu/ptx/debug_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

namespace flashmoe::vgpu::ptx {
namespace {

constexpr std::int64_t kMost = 1 << 30;  // of file indices, lines and columns
constexpr int kDeepestInlining = 256;

std::array<int, 3> parse_place(Cursor& cursor) {
  std::array<int, 3> place{};
  place[0] = static_cast<int>(cursor.number("the index of a file", kMost));
  place[1] = static_cast<int>(cursor.number("a line", kMost));
  place[2] = static_cast<int>(cursor.number("a column", kMost));
  return place;
}

}  // namespace

RawLocation DebugInfo::parse_loc(Cursor& cursor) {
  RawLocation location;
  cursor.expect(".loc");
  location.place = parse_place(cursor);
  while (cursor.accept(",")) {
    if (cursor.accept("function_name")) {
      location.label = cursor.identifier("a label in .debug_str");
      if (cursor.accept("+")) location.label_offset = static_cast<std::uint64_t>(cursor.number("an offset", kMost));
    } else if (cursor.accept("inlined_at")) {
      location.is_inlined = true;
      location.inlined_at = parse_place(cursor);
    } else {
      cursor.fail_expected("function_name or inlined_at");
    }
  }
  return location;
}

File DebugInfo::parse_file(Cursor& cursor) {
  File file;
  cursor.expect(".file");
  file.index = static_cast<int>(cursor.number("the index of a file", kMost));
  file.path = cursor.quoted("a path in quotes");
  // Time stamp and size serve a debugger only.
  for (int more = 0; more < 2 && cursor.accept(","); ++more) {
    if (!cursor.is(Token::Kind::integer)) cursor.fail_expected("a time stamp or a size");
    cursor.take();
  }
  return file;
}

void DebugInfo::parse_section(Cursor& cursor) {
  cursor.expect(".section");
  if (!cursor.is(Token::Kind::dotted)) cursor.fail_expected("the name of a section");
  const bool strings = cursor.take().is(".debug_str");
  cursor.expect("{");
  if (strings) {
    parse_strings(cursor);
  } else {
    while (!cursor.is("}") && !cursor.at_end()) cursor.take();
  }
  cursor.expect("}");
}

void DebugInfo::parse_strings(Cursor& cursor) {
  while (!cursor.is("}") && !cursor.at_end()) {
    if (cursor.is(Token::Kind::identifier)) {
      labels_[cursor.take().text] = bytes_.size();
      cursor.expect(":");
      continue;
    }
    cursor.expect(".b8");
    do {
      bytes_ += static_cast<char>(cursor.number("a byte", 255));
    } while (cursor.accept(","));
  }
}

std::string DebugInfo::name_of(const RawLocation& location) const {
  const auto label = labels_.find(location.label);
  if (label == labels_.end()) return std::string(location.label);
  const std::size_t start = label->second + location.label_offset;
  if (start >= bytes_.size()) return std::string(location.label);
  return bytes_.substr(start, bytes_.find('\0', start) - start);
}

std::vector<SourceLocation> DebugInfo::resolve(const std::vector<RawLocation>& raw) const {
  struct Seen {
    std::shared_ptr<const SourceLocation> location{};
    int depth = 0;
  };
  // The call site of an inlined function is itself the latest .loc of that place, which may again have been inlined.
  std::map<std::array<int, 3>, Seen> latest;
  std::vector<SourceLocation> sources;
  sources.reserve(raw.size());
  for (const RawLocation& from : raw) {
    SourceLocation source{.file = from.place[0], .line = from.place[1], .column = from.place[2]};
    if (!from.label.empty()) source.function = name_of(from);
    int depth = 0;
    if (from.is_inlined) {
      Seen& site = latest[from.inlined_at];
      if (!site.location || site.depth >= kDeepestInlining)
        site = {std::make_shared<const SourceLocation>(SourceLocation{
                    .file = from.inlined_at[0], .line = from.inlined_at[1], .column = from.inlined_at[2]}),
                0};
      source.inlined_at = site.location;
      depth = site.depth + 1;
    }
    Seen& place = latest[from.place];
    // Most .locs repeat one that is known: they share it.
    const bool repeats = place.location && place.location->function == source.function &&
                         place.location->inlined_at == source.inlined_at;
    if (!repeats) place = {std::make_shared<const SourceLocation>(source), depth};
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace flashmoe::vgpu::ptx
