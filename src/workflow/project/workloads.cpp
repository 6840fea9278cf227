#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

const Workload* find_workload(const Project& project, const std::string& name) {
  for (const Workload& workload : project.workloads) {
    if (workload.name == name) return &workload;
  }
  return nullptr;
}

const Workload* target_workload(const Project& project) {
  if (const Workload* target = find_workload(project, project.thresholds.target_workload)) return target;
  return project.workloads.empty() ? nullptr : &project.workloads.back();
}

std::string workload_names(const Project& project) {
  std::string names;
  for (const Workload& workload : project.workloads) names += (names.empty() ? "" : ", ") + workload.name;
  return names;
}

}  // namespace flashmoe::workflow
