#include "images/device_runtime.hpp"

#include <algorithm>

#include "images/fatbin.hpp"

namespace flashmoe {

bool holds_device_runtime(std::span<const std::byte> fatbin) {
  constexpr std::string_view source = "cuda_device_runtime_cu";  // part of its symbols
  const auto entries = read_fatbin(fatbin);
  return entries && std::any_of(entries->begin(), entries->end(), [&](const FatbinEntry& entry) {
           const std::string_view bytes(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
           return bytes.find(source) != std::string_view::npos;
         });
}

}  // namespace flashmoe
