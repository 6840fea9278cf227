// The modifiers of a row of the op table, taken apart: `.a` as written, `{.a,.b}` one of, `[.a,.b]` one of or none,
// `<.a,.b>` any number of (cache hints, which change no result and would multiply the forms).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flashmoe::vgpu::ir {

class Pattern {
 public:
  explicit Pattern(std::string_view text);

  // Modifiers may stand in any order (compilers and inline assembly vary it), but types keep theirs: in cvt.f32.f16 it
  // says which is which.
  [[nodiscard]] bool matches(const std::vector<std::string>& modifiers) const;
  // How many modifiers find no place, plus how many groups stay without one they need: 0 is a match.
  [[nodiscard]] int distance(const std::vector<std::string>& modifiers) const;
  // Every combination, ".rn.ftz.f32", without hints.
  [[nodiscard]] std::vector<std::string> expand() const;

 private:
  enum class Kind { one, optional, any };
  struct Group {
    Kind kind = Kind::one;
    std::vector<std::string_view> choices{};
    bool has_types = false;
    [[nodiscard]] bool holds(std::string_view modifier) const;
  };
  bool place(const std::vector<std::string>& modifiers, std::size_t next, std::vector<bool>& used,
             std::size_t first_type_group) const;

  std::vector<Group> groups_{};
};

}  // namespace flashmoe::vgpu::ir
