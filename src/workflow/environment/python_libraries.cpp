// Which shared library a Python package lacks, found the way the loader would look: DT_NEEDED, then the directories.
#include <array>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>

#include "images/elf.hpp"
#include "support/text.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> search_directories(const fs::path& package) {
  std::vector<fs::path> directories{package, package / "lib"};
  std::error_code ignored;
  // NVIDIA's wheels: site-packages/nvidia/<part>/lib.
  for (const auto& part : fs::directory_iterator(package.parent_path() / "nvidia", ignored))
    directories.push_back(part.path() / "lib");
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    for (const std::string& part : colon_separated(path)) directories.emplace_back(part);
  }
  for (const auto& file : fs::directory_iterator("/etc/ld.so.conf.d", ignored)) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);)
      if (!line.empty() && line.front() == '/') directories.emplace_back(line);
  }
  for (const char* usual : {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"})
    directories.emplace_back(usual);
  return directories;
}

struct Package {
  std::string_view library;
  std::string_view name;   // on PyPI, for CUDA 13
  std::string_view older;  // for CUDA 12
};

constexpr std::array packages{
    Package{"libcublas.so", "nvidia-cublas", "nvidia-cublas-cu12"},
    Package{"libcublasLt.so", "nvidia-cublas", "nvidia-cublas-cu12"},
    Package{"libcudart.so", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"},
    Package{"libcudnn.so", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12"},
    Package{"libcufft.so", "nvidia-cufft", "nvidia-cufft-cu12"},
    Package{"libcufile.so", "nvidia-cufile", "nvidia-cufile-cu12"},
    Package{"libcupti.so", "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12"},
    Package{"libcurand.so", "nvidia-curand", "nvidia-curand-cu12"},
    Package{"libcusolver.so", "nvidia-cusolver", "nvidia-cusolver-cu12"},
    Package{"libcusparse.so", "nvidia-cusparse", "nvidia-cusparse-cu12"},
    Package{"libcusparseLt.so", "nvidia-cusparselt-cu13", "nvidia-cusparselt-cu12"},
    Package{"libnccl.so", "nvidia-nccl-cu13", "nvidia-nccl-cu12"},
    Package{"libnvJitLink.so", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"},
    Package{"libnvrtc.so", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"},
    Package{"libnvshmem_host.so", "nvidia-nvshmem-cu13", "nvidia-nvshmem-cu12"},
    Package{"libnvToolsExt.so", "nvidia-nvtx", "nvidia-nvtx-cu12"},
};

}  // namespace

std::vector<MissingLibrary> missing_libraries(const std::string& directory) {
  const auto directories = search_directories(directory);
  const auto locate = [&](const std::string& name) -> fs::path {
    std::error_code ignored;
    for (const fs::path& one : directories)
      if (fs::exists(one / name, ignored)) return one / name;
    return {};
  };
  std::deque<fs::path> waiting;
  std::error_code ignored;
  // The extension modules are where Python begins to load.
  for (const auto& file : fs::directory_iterator(directory, ignored))
    if (file.path().extension() == ".so") waiting.push_back(file.path());
  std::vector<MissingLibrary> missing;
  std::set<std::string> seen;
  while (!waiting.empty()) {
    const fs::path file = waiting.front();
    waiting.pop_front();
    const auto bytes = read_bytes(file.string());
    if (!bytes) continue;
    const auto elf = read_elf(*bytes);
    if (!elf) continue;
    for (const std::string_view needed : elf->needed()) {
      const std::string name(needed);
      if (name.empty() || !seen.insert(name).second) continue;
      const fs::path found = locate(name);
      if (found.empty())
        missing.push_back({name, file.filename().string()});
      else if (found.string().rfind(fs::path(directory).parent_path().string(), 0) == 0)
        waiting.push_back(found);  // a system library is the system's business
    }
  }
  return missing;
}

std::string package_of_library(const std::string& soname) {
  const auto dot = soname.find(".so");
  if (dot == std::string::npos) return {};
  const std::string base = soname.substr(0, dot + 3);
  const std::string version = soname.size() > dot + 4 ? soname.substr(dot + 4) : "";
  if (base == "libgomp.so") return "sudo apt-get install libgomp1";
  if (base == "libstdc++.so") return "sudo apt-get install libstdc++6";
  if (base == "libpython3.so" || base.rfind("libpython", 0) == 0) return "sudo apt-get install libpython3-dev";
  for (const Package& package : packages)
    // The libraries whose number is CUDA's own tell which generation is wanted.
    if (base == package.library)
      return "pip install " + std::string(version == "12" || version == "11" ? package.older : package.name);
  return {};
}

}  // namespace flashmoe::workflow
