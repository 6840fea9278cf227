#include "workflow/card/static_sass.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "workflow/environment/nvdisasm.hpp"
#include "workflow/predict/nvdisasm.hpp"

namespace flashmoe::workflow {
namespace {

struct Kind {
  std::string_view opcode;
  int StaticSass::*count;
};
constexpr std::array kinds{
    Kind{"HMMA", &StaticSass::matrix_products},  Kind{"IMMA", &StaticSass::matrix_products},
    Kind{"DMMA", &StaticSass::matrix_products},  Kind{"QMMA", &StaticSass::matrix_products},
    Kind{"OMMA", &StaticSass::matrix_products},  Kind{"BMMA", &StaticSass::matrix_products},
    Kind{"HGMMA", &StaticSass::matrix_products}, Kind{"IGMMA", &StaticSass::matrix_products},
    Kind{"QGMMA", &StaticSass::matrix_products}, Kind{"UTCHMMA", &StaticSass::matrix_products},
    Kind{"FFMA", &StaticSass::multiply_adds},    Kind{"FADD", &StaticSass::multiply_adds},
    Kind{"FMUL", &StaticSass::multiply_adds},    Kind{"HFMA2", &StaticSass::multiply_adds},
    Kind{"HADD2", &StaticSass::multiply_adds},   Kind{"HMUL2", &StaticSass::multiply_adds},
    Kind{"DFMA", &StaticSass::multiply_adds},    Kind{"DADD", &StaticSass::multiply_adds},
    Kind{"DMUL", &StaticSass::multiply_adds},    Kind{"IMAD", &StaticSass::multiply_adds},
    Kind{"LDG", &StaticSass::global_loads},      Kind{"LD", &StaticSass::global_loads},
    Kind{"STG", &StaticSass::global_stores},     Kind{"ST", &StaticSass::global_stores},
    Kind{"LDGSTS", &StaticSass::async_copies},   Kind{"UBLKCP", &StaticSass::async_copies},
    Kind{"UTMALDG", &StaticSass::async_copies},  Kind{"LDS", &StaticSass::shared_loads},
    Kind{"LDSM", &StaticSass::shared_loads},     Kind{"STS", &StaticSass::shared_stores},
    Kind{"STSM", &StaticSass::shared_stores},    Kind{"LDL", &StaticSass::local_accesses},
    Kind{"STL", &StaticSass::local_accesses},    Kind{"BAR", &StaticSass::barriers},
};

}  // namespace

StaticSass static_sass(const predict::SassKernel& kernel) {
  StaticSass counts;
  for (const predict::SassInstruction& instruction : kernel.instructions) {
    const std::string_view base = instruction.base();
    if (base == "NOP") continue;  // what the last loop is followed by, for the fetch unit's sake
    ++counts.instructions;
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& one) { return one.opcode == base; });
    if (kind != kinds.end()) ++(counts.*kind->count);
  }
  return counts;
}

Result<StaticSass> static_sass_of(const std::string& cubin, const std::string& kernel) {
  const auto nvdisasm = find_nvdisasm();
  if (!nvdisasm) return nvdisasm.error();
  const auto kernels = sass_of(*nvdisasm, cubin);
  if (!kernels) return kernels.error();
  const auto found = std::find_if(kernels->begin(), kernels->end(),
                                  [&](const predict::SassKernel& one) { return one.name == kernel; });
  if (found == kernels->end()) return Diagnostic{.message = cubin + " has no kernel " + kernel};
  return static_sass(*found);
}

}  // namespace flashmoe::workflow
