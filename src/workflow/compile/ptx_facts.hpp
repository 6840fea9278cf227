// What PTX declares, for the case that ptxas refused it: then there is no cubin to ask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct PtxEntry {
  std::string name{};
  std::int64_t static_shared_bytes = 0;
};

struct PtxFacts {
  std::vector<PtxEntry> entries{};
  std::vector<std::string> external_functions{};  // declared, used and nowhere defined, the driver's own aside
};

[[nodiscard]] PtxFacts read_ptx(const std::string& text);

}  // namespace flashmoe::workflow
