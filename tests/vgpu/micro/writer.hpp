// Writes the text of a micro-kernel: registers, loads of a thread's inputs, stores of its results.
#pragma once

#include <functional>
#include <string>

#include "vgpu/micro/micro_kernel.hpp"
#include "vgpu/micro/values.hpp"

namespace flashmoe::vgpu::micro {

class Writer {
 public:
  Writer(std::string form, std::uint32_t threads, Random& random);

  // A new register of so many bits (1: a predicate), not written yet.
  [[nodiscard]] std::string fresh(int bits);
  // A register that holds a value of its own for each thread, loaded from the inputs.
  [[nodiscard]] std::string input(int bits, const std::function<std::uint64_t()>& value);
  [[nodiscard]] std::string input_predicate(const std::function<bool()>& value);
  void line(const std::string& text) { body_ += "  " + text + "\n"; }
  void shared(const std::string& declaration) { declarations_ += "  " + declaration + "\n"; }
  void module(const std::string& declaration) { module_ += declaration + "\n"; }
  // The register becomes a result.
  void output(const std::string& reg, int bits, Field field);
  void output_predicate(const std::string& predicate);
  [[nodiscard]] std::uint32_t reserve_output(std::uint32_t bytes, std::uint32_t align);
  // `bytes` of input as they are, aligned to their size; their offset in the thread's record.
  [[nodiscard]] std::uint32_t reserve_input(std::uint32_t bytes, const std::function<std::uint64_t()>& word);

  [[nodiscard]] MicroKernel finish();
  [[nodiscard]] Random& random() { return random_; }
  [[nodiscard]] MicroKernel& kernel() { return kernel_; }

 private:
  MicroKernel kernel_;
  Random& random_;
  std::string module_{}, declarations_{}, body_{};
  std::uint32_t input_end_ = 0, output_end_ = 0;
  int registers_ = 0;
  std::vector<std::vector<std::uint8_t>> inputs_;  // of each thread
};

}  // namespace flashmoe::vgpu::micro
