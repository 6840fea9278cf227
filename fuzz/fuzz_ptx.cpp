// Anything at all as PTX: refused with its place, or parsed, printed and parsed again to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "vgpu/ptx/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flashmoe::vgpu::ptx;
  const auto module = parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!module) {
    const flashmoe::Diagnostic& error = module.error();
    if (error.message.empty() || error.line < 1 || error.column < 1) std::abort();
    return 0;
  }
  const std::string text = print(*module);
  const auto again = parse(text, "printed");
  if (!again || print(*again) != text) std::abort();
  return 0;
}
