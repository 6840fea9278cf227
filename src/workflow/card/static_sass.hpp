// What the SASS of a kernel has in it, instruction by instruction as it stands, not as often as it runs: all that can
// be said of its instructions where nobody counts.
#pragma once

#include <string>

#include "predict/sass.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

struct StaticSass {
  int instructions = 0;
  int matrix_products = 0;  // HMMA, IMMA, DMMA, QMMA, HGMMA and their like
  int multiply_adds = 0;    // FFMA, FADD, FMUL, HFMA2, DFMA, IMAD and their like: the fma pipe's
  int global_loads = 0, global_stores = 0;
  int async_copies = 0;  // LDGSTS, UBLKCP, UTMALDG
  int shared_loads = 0, shared_stores = 0;
  int local_accesses = 0;  // LDL, STL: spills and arrays with indices that are not known
  int barriers = 0;
  bool operator==(const StaticSass&) const = default;
};

[[nodiscard]] StaticSass static_sass(const predict::SassKernel& kernel);
// Of one kernel of a cubin, by nvdisasm.
[[nodiscard]] Result<StaticSass> static_sass_of(const std::string& cubin, const std::string& kernel);

}  // namespace flashmoe::workflow
