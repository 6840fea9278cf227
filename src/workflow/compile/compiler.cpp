#include "workflow/compile/compiler.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/text.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// "13.0.88" of "Cuda compilation tools, release 13.0, V13.0.88"; empty where there is no such word.
std::string nvcc_version(const std::string& said) {
  for (const std::string& word : words_of(said))
    if (word.size() > 1 && word[0] == 'V' && word.find_first_not_of("0123456789.", 1) == std::string::npos)
      return word.substr(1);
  return {};
}

// The directories above the running executable, nearest first: an installation or a build tree is one of them.
std::vector<fs::path> above_executable() {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::path at = fs::read_symlink("/proc/self/exe", failed);
  for (int i = 0; i < 5 && at.has_parent_path() && at != at.root_path(); ++i) {
    at = at.parent_path();
    found.push_back(at);
  }
  return found;
}

std::optional<std::string> library_under(const fs::path& root) {
  std::vector<fs::path> directories{root, root / "lib", root / "lib64", root / "src"};
  std::error_code ignored;
  // Debian's multiarch: lib/x86_64-linux-gnu.
  for (const auto& entry : fs::directory_iterator(root / "lib", ignored))
    if (entry.is_directory(ignored)) directories.push_back(entry.path());
  for (const fs::path& directory : directories)
    if (fs::exists(directory / "libflashmoe.so", ignored)) return (directory / "libflashmoe.so").string();
  return std::nullopt;
}

}  // namespace

fs::path absolute_path(const fs::path& path) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed);
  return failed ? path : absolute;
}

std::string find_program(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.empty()) continue;
    if (name.find('/') != std::string::npos) {
      if (is_program(name)) return absolute_path(name).string();
      continue;
    }
    for (const std::string& directory : colon_separated(variable("PATH")))
      if (is_program(fs::path(directory) / name)) return (fs::path(directory) / name).string();
  }
  return {};
}

Result<CxxCompiler> find_cxx_compiler() {
  CxxCompiler compiler;
  const std::string wanted = variable("CXX");
  if (!words_of(wanted).empty()) {
    compiler.argv = words_of(wanted);
    if (find_program({compiler.argv.front()}).empty())
      return Diagnostic{.message = "CXX is \"" + wanted + "\", but there is no such program",
                        .fix = "unset CXX, or set it to an installed compiler, as in: export CXX=g++",
                        .code = codes::environment_no_compiler};
  } else {
    const std::string found = find_program({"g++", "c++", "clang++"});
    if (found.empty())
      return Diagnostic{.message = "no C++ compiler: none of g++, c++, clang++ is on PATH",
                        .fix = "sudo apt-get install g++   (or set CXX to a compiler's path)",
                        .code = codes::environment_no_compiler};
    compiler.argv = {found};
  }
  Command command{.argv = compiler.argv};
  command.argv.emplace_back("--version");
  command.limit = std::chrono::seconds(10);
  const auto ran = run_process(command);
  if (!ran) return ran.error();
  if (!ran->ok())
    return Diagnostic{.message = compiler.argv.front() + " --version: " + ran->describe() + "\n" + ran->err,
                      .fix = "repair that compiler, or set CXX to another",
                      .code = codes::environment_no_compiler};
  compiler.version = first_line(ran->out);
  return compiler;
}

Result<CudaToolkit> find_cuda_toolkit() {
  const std::string fix =
      "install the CUDA toolkit (nvcc and ptxas are enough, no GPU or driver is needed; .ci/setup --cudadent of the "
      "sources takes it from PyPI), or set CUDACXX to the path of nvcc";
  const std::string wanted = variable("CUDACXX");
  std::vector<std::string> names{"nvcc"};
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (!variable(home).empty()) names.push_back(variable(home) + "/bin/nvcc");
  names.emplace_back("/usr/local/cuda/bin/nvcc");
  if (!wanted.empty()) names = {wanted};
  CudaToolkit toolkit{.nvcc = find_program(names)};
  if (toolkit.nvcc.empty() && !wanted.empty())
    return Diagnostic{.message = "CUDACXX is \"" + wanted + "\", but there is no such program",
                      .fix = fix,
                      .code = codes::environment_no_nvcc};
  if (toolkit.nvcc.empty())
    return Diagnostic{.message =
                          "no CUDA toolkit: nvcc is neither on PATH, in CUDA_HOME/bin nor in "
                          "/usr/local/cuda/bin",
                      .fix = fix,
                      .code = codes::environment_no_nvcc};
  std::error_code failed;
  const fs::path real = fs::canonical(toolkit.nvcc, failed);
  const fs::path root = (failed ? fs::path(toolkit.nvcc) : real).parent_path().parent_path();
  const Json json = parse_json_file((root / "version.json").string());
  if (json.is_object() && json.contains("cuda_nvcc") && json["cuda_nvcc"].is_object())
    toolkit.version = text_in(json["cuda_nvcc"], "version");
  if (toolkit.version.empty()) {
    const auto ran = run_process({.argv = {toolkit.nvcc, "--version"}, .limit = std::chrono::seconds(20)});
    if (!ran) return ran.error();
    if (!ran->ok())
      return Diagnostic{.message = toolkit.nvcc + " does not run: " + ran->describe() + "\n" + ran->err,
                        .fix = fix,
                        .code = codes::environment_no_nvcc};
    toolkit.version = nvcc_version(ran->out);
    if (toolkit.version.empty())
      return Diagnostic{.message = toolkit.nvcc + " --version names no version:\n" + ran->out,
                        .fix = fix,
                        .code = codes::environment_no_nvcc};
  }
  std::istringstream numbers(toolkit.version);
  char dot = 0;
  numbers >> toolkit.major >> dot >> toolkit.minor;
  return toolkit;
}

Result<std::string> find_flashmoe_library() {
  const std::string wanted = variable("CUDADENT_FLASHMOE_DIR");
  if (!wanted.empty()) {
    if (auto found = library_under(wanted)) return *found;
    return Diagnostic{.message = "CUDADENT_FLASHMOE_DIR is \"" + wanted +
                                 "\", but there is no libflashmoe.so in it, nor in its lib, lib64 or src",
                      .fix = "unset CUDADENT_FLASHMOE_DIR, or set it to the installation prefix or the build directory",
                      .code = codes::environment_no_library};
  }
  for (const fs::path& root : above_executable())
    if (auto found = library_under(root)) return *found;
  return Diagnostic{.message = "libflashmoe.so is not beside this executable (neither ../lib nor the build tree's src)",
                    .fix =
                        "cmake --build <build directory> --target flashmoe, or set CUDADENT_FLASHMOE_DIR to the "
                        "prefix of an installation",
                    .code = codes::environment_no_library};
}

std::vector<std::string> own_include_directories() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::path& root : above_executable())
    if (fs::exists(root / "include" / "cudadent" / "kernel.h", ignored)) {
      found.push_back((root / "include").string());
      break;
    }
  return found;
}

}  // namespace flashmoe::workflow
