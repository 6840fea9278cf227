// What a program needs of the virtual GPU, read from its files: nothing of it runs.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/gpu/program.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct NeededLibrary {
  std::string name{};  // "libcudart.so.13"
  std::string path{};  // as the program's loader finds it under `cudadent run`; empty: it does not
  bool is_ours = false;
};

struct NeededKernel {
  std::string name{};  // as it stands in the source
  std::string file{};  // that holds it
  std::string why{};   // it cannot run; empty: it can
};

struct Explanation {
  std::string program{};  // its path
  // How its files come by the CUDA runtime: "shared", "static", "both", "none".
  std::string runtime = "none";
  std::vector<NeededLibrary> libraries{};  // of CUDA; and any other that is missing
  std::vector<NeededKernel> kernels{};
  std::vector<Finding> lacks{};            // what is missing, and what to do about it
  std::vector<std::string> notes{};        // what cannot be seen before it runs
  std::vector<std::string> environment{};  // "NAME=value": what `cudadent run` sets
};

// The program's arguments are not looked at. Opens the virtual driver in this process, and reads the images with it.
[[nodiscard]] Result<Explanation> explain_program(const std::string& program, const ProgramOptions& options);

// For people.
[[nodiscard]] std::string explanation_text(const Explanation& explanation);

}  // namespace flashmoe::workflow
