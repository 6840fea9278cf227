// Compiles CUDA source with the real nvcc, runs a kernel of it with every check on, and hands back what was found.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "vgpu/ir/kernel.hpp"
#include "vgpu/mutants/corpus.hpp"
#include "vgpu/observe/counters/counters.hpp"
#include "vgpu/observe/finding.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::corpus {

// `text` as one compilation for sm_89 with line information; the PTX, or what nvcc said.
[[nodiscard]] Result<std::string> compile(const std::string& text, const std::string& name);

// The file of a kernel; `rename`: the kernel's new name, so that many variants fit into one compilation. #include lines
// are taken out (headers() names them), #line keeps the place in the original file.
[[nodiscard]] std::string text_of_file(const std::filesystem::path& path);
[[nodiscard]] Result<std::string> kernel_source(const std::string& kernel);
[[nodiscard]] std::string variant(const std::string& source, const std::string& kernel, const std::string& rename);
[[nodiscard]] std::string headers();

struct Seen {
  Memory memory{};
  exec::Fault fault{};
  std::vector<observe::Finding> findings{};
  observe::LaunchCounts counts{};
  std::uint64_t warp_instructions = 0;
};

// The kernel `entry` of a module, lowered once, run under a schedule on fresh memory.
class Program {
 public:
  static Result<std::unique_ptr<Program>> load(const ptx::Module& module, const std::string& entry);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  [[nodiscard]] Result<Seen> run(const Case& how, const exec::Schedule& schedule) const;
  [[nodiscard]] const ir::Kernel& kernel() const { return kernel_; }

 private:
  Program() = default;
  ir::Kernel kernel_{};
};

// Every kernel runs under so many: the natural one, then adversarial ones.
inline constexpr std::uint64_t schedules = 20;
[[nodiscard]] inline exec::Schedule schedule(std::uint64_t number) {
  return number == 0 ? exec::Schedule{} : exec::Schedule::adversarial(number);
}
[[nodiscard]] std::string all_text(const std::vector<observe::Finding>& findings);

[[nodiscard]] std::vector<float> input(std::size_t count);
// nullptr-like: empty when the results agree with the case.
[[nodiscard]] std::string wrong(const Case& how, const Seen& seen);

}  // namespace flashmoe::vgpu::corpus
