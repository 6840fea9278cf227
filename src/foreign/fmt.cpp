// {fmt}, compiled once into an archive of our own, because Debian has it as a shared library alone: what is shipped
// must not want one, and what is loaded into a stranger's process must not meet the stranger's. With all of {fmt} in
// its headers and nothing inlined (CMakeLists.txt), whatever the functions below call stands in this object under the
// library's own names; what is missing is an error of the linker.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <cstdio>
#include <locale>

template std::locale fmt::detail::locale_ref::get<std::locale>() const;

namespace flashmoe::foreign {

void all_of_fmt(fmt::string_view text, fmt::format_args arguments);
void all_of_fmt(fmt::string_view text, fmt::format_args arguments) {
  fmt::vprint(text, arguments);
  fmt::vprint(stderr, text, arguments);
  fmt::vprint(fmt::vformat(text, arguments), {});
}

}  // namespace flashmoe::foreign
