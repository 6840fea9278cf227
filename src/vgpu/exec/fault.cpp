// A fault says what a person needs to find it: kernel, CUDA line, PTX line and text, block, thread.
#include <fmt/format.h>

#include <utility>

#include "vgpu/exec/place.hpp"
#include "vgpu/exec/state.hpp"
#include "vgpu/ir/readable_name.hpp"

namespace flashmoe::vgpu::exec {

Dim3 thread_of(const Warp& warp, int lane) {
  const Dim3& block = warp.cta->grid->launch->block;
  const std::uint32_t linear = warp.id * lanes_per_warp + static_cast<std::uint32_t>(lane);
  return Dim3{linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

std::string place_of(const ir::Kernel& kernel, std::uint32_t pc) {
  if (pc >= kernel.info.size()) {
    return fmt::format("kernel {}", ir::readable_name(kernel.name));
  }
  const ir::InstInfo& info = kernel.info[pc];
  std::string place = fmt::format("kernel {}", ir::readable_name(kernel.name));
  const auto file = static_cast<std::size_t>(info.source_file);
  if (info.source_line != 0 && file < kernel.files.size()) {
    place += fmt::format(", {}:{}", kernel.files[file], info.source_line);
  }
  if (!info.inlined.empty()) {
    place += fmt::format(" ({})", ir::readable_names(info.inlined));
  }
  if (info.at.line != 0) {
    place += fmt::format(", PTX line {}", info.at.line);
  }
  if (!info.text.empty()) {
    place += fmt::format(" `{}`", info.text);
  }
  return place;
}

void raise(Warp& warp, Fault::Kind kind, std::string message, int lane, std::uint64_t address) {
  Grid& grid = *warp.cta->grid;
  Fault fault{};
  fault.kind = kind;
  fault.pc = warp.pc == 0 ? 0 : warp.pc - 1;
  fault.block = warp.cta->block;
  fault.thread = thread_of(warp, lane);
  fault.address = address;
  fault.message =
      fmt::format("{}: {}; block ({},{},{}), thread ({},{},{})", place_of(*warp.kernel, fault.pc), message,
                  fault.block.x, fault.block.y, fault.block.z, fault.thread.x, fault.thread.y, fault.thread.z);
  warp.leave = true;
  const std::lock_guard lock(grid.mutex);
  if (grid.fault.kind == Fault::Kind::none) {
    grid.fault = std::move(fault);
  }
  grid.stopped.store(true, std::memory_order_release);
}

}  // namespace flashmoe::vgpu::exec
