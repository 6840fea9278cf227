// For tests: PTX run under a Watch, and what it found.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe {

inline std::vector<Finding> findings_of(const std::string& text, unsigned ctas, unsigned threads) {
  exec::PtxRunner runner(text, exec::Mode::observed);
  Watch watch;
  runner.launch.observer = &watch;
  const exec::Outcome outcome = runner.run(ctas, threads);
  EXPECT_EQ(outcome.fault.kind, exec::Fault::Kind::none) << outcome.fault.message;
  const auto found = watch.log().findings();
  return {found.begin(), found.end()};
}

}  // namespace flashmoe::vgpu::observe
