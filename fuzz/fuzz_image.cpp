// Bytes as a file given to cuModuleLoad: PTX, a cubin, a fatbin (compressed or not), the wrapper of one, a linked
// image, or none of them. Read, parsed, verified and placed by the driver's own loader: a module or an error with a
// text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <variant>

#include "vgpu/driver/module.hpp"

namespace {

flashmoe::vgpu::driver::State& driver_state() {
  static flashmoe::vgpu::driver::State& ready = [&]() -> auto& {
    setenv("VGPU_LOG", "off", 1);
    auto& all = flashmoe::vgpu::driver::state();
    const auto machine = flashmoe::vgpu::driver::machine();
    if (!machine) {
      std::fprintf(stderr, "%s\n", machine.error().to_string().c_str());
      std::abort();
    }
    all.machine = *machine;
    return all;
  }
  ();
  return ready;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flashmoe::vgpu::driver;
  State& all = driver_state();
  // A copy of just that size: a byte too far is seen.
  const std::unique_ptr<std::byte[]> file(new std::byte[size]);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, file.get());
  const Loaded loaded = load_module(all, nullptr, std::span<const std::byte>(file.get(), size));
  const auto* const module = std::get_if<std::unique_ptr<Module>>(&loaded);
  if (module == nullptr) {
    if (std::get<LoadError>(loaded).diagnostic.message.empty()) std::abort();
    return 0;
  }
  int kernels = 0;
  for (auto& [name, function] : (*module)->functions) {
    if (++kernels > 4) break;
    const auto made = lowered(function);  // or a reason why not
    if (!made && made.error().message.empty()) std::abort();
    static_cast<void>(compiled(function, false));
  }
  return 0;
}
