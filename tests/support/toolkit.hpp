// The CUDA toolkit that tests compile with.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace flashmoe::testing {

// Where nvcc or another program of the toolkit is; empty: nowhere.
inline std::string toolkit_program(const std::string& name) {
  std::vector<std::string> folders;
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* value = std::getenv(home)) folders.push_back(std::string(value) + "/bin");
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
  folders.emplace_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders)
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  return {};
}

}  // namespace flashmoe::testing
