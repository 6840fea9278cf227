#include "runtime/counter_access.hpp"

#include <fstream>
#include <string_view>

namespace flashmoe::runtime {

std::optional<bool> counters_are_for_administrators(const std::string& parameters_file) {
  constexpr std::string_view name = "RmProfilingAdminOnly:";
  std::ifstream file(parameters_file);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const std::size_t digit = line.find_first_not_of(' ', name.size());
    if (digit == std::string::npos) return std::nullopt;
    return line[digit] != '0';
  }
  return std::nullopt;
}

bool says_that_counters_are_locked(const std::string& output) {
  return output.find("ERR_NVGPUCTRPERM") != std::string::npos;
}

Diagnostic locked_counters(const std::string& who) {
  return {.message = who +
                     " may not read the GPU's performance counters (ERR_NVGPUCTRPERM): the driver keeps them to "
                     "administrators",
          .fix =
              "the administrator of the host writes  options nvidia NVreg_RestrictProfilingToAdminUsers=0  into "
              "/etc/modprobe.d/nvidia-profiling.conf and reboots; or run as root, in a container with "
              "--cap-add=SYS_ADMIN"};
}

}  // namespace flashmoe::runtime
