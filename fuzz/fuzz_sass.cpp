// Anything at all as the text of nvdisasm: refused with its place, or kernels whose branches stay inside them and that
// can be prepared for a simulation.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "predict/program.hpp"
#include "predict/sass.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flashmoe;
  static const auto machine = predict::machine_of(all_gpus().front());
  const auto kernels = predict::parse_sass({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!kernels) {
    if (kernels.error().message.empty() || kernels.error().line < 1 || kernels.error().column < 1) std::abort();
    return 0;
  }
  for (const predict::SassKernel& kernel : *kernels) {
    if (kernel.instructions.empty() || kernel.architecture.empty()) std::abort();
    for (const predict::SassInstruction& instruction : kernel.instructions)
      if (instruction.opcode.empty() || (instruction.target && *instruction.target >= kernel.instructions.size()))
        std::abort();
    if (predict::make_program(kernel, {}, *machine).operations.size() != kernel.instructions.size()) std::abort();
  }
  return 0;
}
