#include "vgpu/driver/ptxas.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "images/elf.hpp"
#include "vgpu/driver/log.hpp"

extern "C" char** environ;

namespace flashmoe::vgpu::driver {
namespace {

std::string ptxas_path() {
  const auto set = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string asked = set("VGPU_PTXAS"); !asked.empty()) return asked == "off" ? "" : asked;
  std::vector<std::string> places;
  if (const std::string home = set("CUDA_HOME"); !home.empty()) places.push_back(home + "/bin");
  const std::string path = set("PATH");
  for (std::size_t from = 0; from <= path.size();) {
    const auto to = std::min(path.find(':', from), path.size());
    places.push_back(path.substr(from, to - from));
    from = to + 1;
  }
  places.emplace_back("/usr/local/cuda/bin");
  for (const std::string& place : places)
    if (access((place + "/ptxas").c_str(), X_OK) == 0) return place + "/ptxas";
  return "";
}

// The exit code; -1: it could not be started. What it prints is not for the client's terminal.
int run(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
  pid_t child = 0;
  const int started = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (started != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::optional<Cubin> compile_with_ptxas(const std::string& ptx, std::string_view architecture) {
  static const auto& path = *new std::string(ptxas_path());
  if (path.empty()) return std::nullopt;
  std::string directory = (std::filesystem::temp_directory_path() / "vgpu-ptxas-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return std::nullopt;
  const std::string text = directory + "/module.ptx";
  const std::string out = directory + "/module.cubin";
  std::ofstream(text) << ptx;
  std::optional<Cubin> cubin;
  if (run({path, "-arch=" + std::string(architecture), "-o", out, text}) == 0)
    if (const auto bytes = read_bytes(out))
      if (auto read = read_cubin(*bytes)) cubin = std::move(*read);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (!cubin) log_once(path + " does not compile this PTX: its registers are unknown (reported as 0)");
  return cubin;
}

}  // namespace flashmoe::vgpu::driver
