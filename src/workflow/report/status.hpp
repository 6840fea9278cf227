// Where a project stands: the last verdict on each device, and what to type next.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/performance_facts.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct Heading;
struct Record;

// The last gate run on a device, as its record says.
struct DeviceStatus {
  std::string device{};
  Outcome outcome = Outcome::could_not_run;
  std::string code{};
  std::string summary{};
  std::string id{}, time{};
  std::string commit{};               // with a + where the tree was changed
  std::optional<SpeedFacts> speed{};  // of the target workload
  bool whole = true;                  // no gate was left out on purpose: what a part says, the rest need not
  std::string next{};
};

struct StatusReport {
  std::string directory{};
  std::string project{};                // empty: there is none here
  std::vector<DeviceStatus> devices{};  // the latest first
  std::string comparison{};             // the last one, in a line
  std::size_t records = 0;
  std::vector<std::string> problems{};  // of the journal: records that are changed, missing or foreign
  std::string next{};
};

// Records that are not as they were written, or somebody else's, do not count.
[[nodiscard]] StatusReport status_of(const Project& project, const std::vector<Record>& records);
// The same of a journal that may be long: only the records that are told of are loaded.
using LoadRecord = std::function<Result<Record>(const Heading& heading)>;
[[nodiscard]] Result<StatusReport> status_of(const Project& project, const std::vector<Heading>& headings,
                                             const LoadRecord& load);
// "holds", "holds in part"; for people.
[[nodiscard]] std::string outcome_of(const DeviceStatus& status);
// Where there is no project.
[[nodiscard]] StatusReport nothing_here(const std::string& directory);
// For people, without the last line; `colour` as may_colour says.
[[nodiscard]] std::string status_text(const StatusReport& report, bool colour);

}  // namespace flashmoe::workflow
