// For tests: a folder that goes away, files in it, and processes that start together.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace flashmoe::testing {

class ScratchFolder {
 public:
  ScratchFolder() : path_((std::filesystem::temp_directory_path() / "flashmoe-jit-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
    EXPECT_FALSE(path_.empty()) << "no temporary folder";
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::vector<char> file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

// One byte for each time something happened, whichever process it happened in.
class SharedCount {
 public:
  explicit SharedCount(std::string path) : path_(std::move(path)) {}
  void add() const {
    std::ofstream file(path_, std::ios::binary | std::ios::app);
    file << 'x';
  }
  [[nodiscard]] std::size_t value() const { return file_bytes(path_).size(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A child that runs `body` and ends with its answer.
inline pid_t start_process(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  EXPECT_GT(child, 0);
  return child;
}

inline bool ended_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// How many of `count` processes, let loose at the same moment, ended well.
inline int race(int count, const std::function<bool()>& body) {
  int gate[2] = {-1, -1};
  if (pipe(gate) != 0) return 0;
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(start_process([&] {
      close(gate[1]);
      char byte = 0;
      return read(gate[0], &byte, 1) == 0 && body();  // the end of the pipe: everybody is there
    }));
  }
  close(gate[0]);
  close(gate[1]);
  int good = 0;
  for (const pid_t child : children) good += ended_well(child) ? 1 : 0;
  return good;
}

}  // namespace flashmoe::testing
