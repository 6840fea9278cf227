// Whatever a program hands to cuModuleLoadData, taken apart: PTX text, a cubin, a fatbin (also in its wrapper), or the
// container that cuLinkComplete of the virtual GPU returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe {

struct Image {
  std::vector<std::string> ptx{};  // more than one: to be linked together
  std::vector<std::byte> cubin{};  // for the device's architecture; empty: there was none
  std::string origin{};            // "PTX", "fatbin, PTX for compute_80", "cubin with its PTX"
};

// A file, or memory of a known length: nothing outside of it is looked at, whatever it says. `sm` is the device (89):
// of several the best fit is chosen as the driver does, the highest PTX and the highest cubin of the same generation
// that are not above it. A cubin without PTX is refused with what to do.
[[nodiscard]] Result<Image> read_image(std::span<const std::byte> bytes, int sm);

// The caller of cuModuleLoadData knows only where the image begins: its own header or its terminating zero says how
// long it is. The caller's memory may also hold the wrapper of a fatbin, whose pointer is followed.
[[nodiscard]] Result<Image> read_image_at(const void* memory, int sm);

// The PTX that ptxas leaves in a cubin compiled with -lineinfo or -G; nothing when it has none.
[[nodiscard]] std::optional<std::string> ptx_of_cubin(std::span<const std::byte> cubin);

// The container: "VGPULINK", the total length, the number of texts, each with its length.
[[nodiscard]] std::vector<std::byte> link_container(const std::vector<std::string>& ptx);

}  // namespace flashmoe
