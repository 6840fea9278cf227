#include "vgpu/oracle/run.hpp"

#include <stdexcept>

namespace flashmoe::vgpu::oracle {

std::string run(const ptx::Module& module, const LaunchDescription& launch, GlobalMemory& memory) {
  try {
    const Image image = build_image(module);
    Machine(image, launch, memory).run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace flashmoe::vgpu::oracle
