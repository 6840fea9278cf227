#include "vgpu/driver/ptxas.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "images/elf.hpp"
#include "vgpu/driver/child.hpp"
#include "vgpu/driver/log.hpp"

namespace flashmoe::vgpu::driver {
namespace {

std::string ptxas_path() {
  const auto set = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string asked = set("VGPU_PTXAS"); !asked.empty()) return asked == "off" ? "" : asked;
  const auto is_there = [](const std::string& path) { return access(path.c_str(), X_OK) == 0; };
  if (const std::string home = set("CUDA_HOME"); !home.empty() && is_there(home + "/bin/ptxas"))
    return home + "/bin/ptxas";
  if (std::string found = found_on_path("ptxas"); !found.empty()) return found;
  const std::string usual = "/usr/local/cuda/bin/ptxas";
  return is_there(usual) ? usual : "";
}

const std::string& ptxas() {
  static const auto& path = *new std::string(ptxas_path());
  return path;
}

bool compile(const std::string& ptx, std::string_view architecture, const std::string& cubin,
             const std::vector<std::string>& options) {
  const std::string text = cubin + ".ptx";
  std::ofstream(text) << ptx;
  std::vector<std::string> command{ptxas(), "-arch=" + std::string(architecture), "-o", cubin, text};
  command.insert(command.end(), options.begin(), options.end());
  return run_child(command) == 0;
}

}  // namespace

std::optional<Cubin> compile_with_ptxas(const std::string& ptx, std::string_view architecture) {
  if (ptxas().empty()) return std::nullopt;
  const ScratchDirectory scratch;
  if (scratch.path().empty()) return std::nullopt;
  const std::string out = scratch.path() / "module.cubin";
  std::optional<Cubin> cubin;
  if (compile(ptx, architecture, out, {}))
    if (const auto bytes = read_bytes(out))
      if (auto read = read_cubin(*bytes)) cubin = std::move(*read);
  if (!cubin) log_once(ptxas() + " does not compile this PTX: its registers are unknown (reported as 0)");
  return cubin;
}

bool compile_with_lines(const std::string& ptx, std::string_view architecture, const std::string& cubin) {
  return !ptxas().empty() && compile(ptx, architecture, cubin, {"-lineinfo"});
}

}  // namespace flashmoe::vgpu::driver
