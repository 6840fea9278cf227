#include <algorithm>

#include "devices/device.hpp"

namespace flashmoe {
namespace {

template <class T>
Result<T> find(std::span<const T> all, std::string_view T::*name, const std::string& wanted, Diagnostic unknown) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const T& one) { return one.*name == wanted; });
  if (found != all.end()) return *found;
  unknown.message += "; known are ";
  for (const T& one : all) unknown.message += (&one == all.data() ? "" : ", ") + std::string(one.*name);
  return unknown;
}

}  // namespace

Result<Gpu> find_gpu(const std::string& id) {
  return find(all_gpus(), &Gpu::id, id,
              {.message = "unknown GPU \"" + id + "\"", .fix = "use one of them, as in: device = \"l4\""});
}

Result<Architecture> find_architecture(const std::string& name) {
  // "sm_90a" has the limits of sm_90: the letter stands for instructions.
  std::string plain = name;
  if (!plain.empty() && (plain.back() == 'a' || plain.back() == 'f')) plain.pop_back();
  return find(all_architectures(), &Architecture::name, plain,
              {.message = "unknown architecture \"" + name + "\"",
               .fix = "use one of them, as in: architectures = [\"sm_89\"]"});
}

}  // namespace flashmoe
