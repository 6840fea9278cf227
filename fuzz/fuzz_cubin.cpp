// Anything at all as a cubin, as PTX and as a kernel's name: refused or read, never read out of bounds.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "images/cubin.hpp"
#include "images/elf.hpp"
#include "workflow/compile/kernel_name.hpp"
#include "workflow/compile/ptx_facts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flashmoe;
  using namespace flashmoe::workflow;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto cubin = read_cubin(bytes)) {
    for (const CubinKernel& kernel : cubin->kernels) {
      // Figures that go into arithmetic later have to stay within reason.
      if (kernel.registers < 0 || kernel.registers > 256 || kernel.static_shared_bytes < 0 || kernel.max_threads < 0 ||
          kernel.spill_store_bytes < 0)
        std::abort();
      static_cast<void>(find_kernel(*cubin, kernel.demangled));
    }
  }
  if (const auto elf = read_elf(bytes)) static_cast<void>(elf->needed());
  if (size < 4096) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    for (const PtxEntry& entry : read_ptx(text).entries)
      if (entry.static_shared_bytes < 0) std::abort();
    const KernelName name = parse_kernel_name(text.substr(0, text.find('\n')));
    static_cast<void>(instantiation_line(text, name));
    Cubin cubin;
    cubin.kernels.push_back({.name = "k", .demangled = "void k<float, 4>(float*)"});
    static_cast<void>(explain_missing_kernel(cubin, name.to_string(), "k.cu", text));
  }
  return 0;
}
