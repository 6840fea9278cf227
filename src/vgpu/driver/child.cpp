#include "vgpu/driver/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

extern "C" char** environ;

namespace flashmoe::vgpu::driver {

int run_child(const std::vector<std::string>& command, const std::string& out) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int stream : {STDIN_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
  pid_t child = 0;
  const int started = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (started != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string found_on_path(const std::string& program) {
  const char* const value = std::getenv("PATH");
  const std::string path = value == nullptr ? "" : value;
  for (std::size_t from = 0; from <= path.size();) {
    const auto to = std::min(path.find(':', from), path.size());
    std::string found = path.substr(from, to - from) + "/" + program;
    if (access(found.c_str(), X_OK) == 0) return found;
    from = to + 1;
  }
  return "";
}

ScratchDirectory::ScratchDirectory() {
  std::error_code failed;
  std::string name = (std::filesystem::temp_directory_path(failed) / "vgpu-XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace flashmoe::vgpu::driver
