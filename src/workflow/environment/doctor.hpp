// Is this machine fit for the work? Looks, never changes anything, and is done within five seconds.
#pragma once

#include <string>
#include <vector>

#include "workflow/verdict/environment_facts.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct DoctorOptions {
  std::string directory = ".";      // whose disk is looked at
  double python_limit_seconds = 4;  // for each import that is tried
};

struct DoctorReport {
  std::vector<Finding> findings;  // grouped: cpu, compilers, cuda, gpu, python, counters, clocks, disk
  EnvironmentFacts facts;         // the same as data: versions, paths, sizes
  std::string verdict;            // one line
  double seconds = 0;
  [[nodiscard]] Outcome outcome() const;   // nothing can run with an error; inconclusive (degraded) with a warning
  [[nodiscard]] std::string code() const;  // why it does not hold; empty when it does
};

[[nodiscard]] DoctorReport examine_machine(const DoctorOptions& options = {});

}  // namespace flashmoe::workflow
