// An evaluation that somebody else's bench made, as it came.
#pragma once

#include <string>

namespace flashmoe::workflow {

struct TraceRecord {
  static constexpr const char* kind = "trace";
  std::string format{};      // and its version
  std::string definition{};  // what is computed
  std::string solution{};    // by what; empty: a workload alone
  std::string hardware{};    // on what, as its bench says
  std::string trace{};       // the line itself
  std::string summary{};
  bool operator==(const TraceRecord&) const = default;
};

}  // namespace flashmoe::workflow
