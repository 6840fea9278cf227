#include "workflow/trial/allowed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "support/whole_file.hpp"
#include "workflow/advise/rules.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// As a word of its own: "half" is not named by "halfway".
bool names(const std::string& text, const std::string& word) {
  if (word.empty()) return false;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// What an #include or an import would say of this file: "half.hpp", "numpy".
bool names_file(const std::string& text, const fs::path& file) {
  if (file.extension() != ".py") return names(text, file.filename().string());
  if (names(text, file.stem().string())) return true;
  return std::any_of(file.begin(), std::prev(file.end()),  // a package
                     [&](const fs::path& folder) { return names(text, folder.string()); });
}

bool is_header(const fs::path& file) {
  constexpr const char* endings[] = {".h", ".hpp", ".cuh", ".inl"};
  return std::any_of(std::begin(endings), std::end(endings),
                     [&](const char* ending) { return file.extension() == ending; });
}

bool is_kernel(const Project& project, const std::string& name) {
  const auto among = [&](const std::vector<std::string>& sources) {
    return std::find(sources.begin(), sources.end(), name) != sources.end();
  };
  return name == project.kernel.source || among(project.kernel.sources) || among(project.cuda_sources);
}

std::vector<fs::path> files_of(const Project& project) {
  std::vector<fs::path> files;
  std::error_code ignored;
  // A folder that nobody may read does not hide the files behind it.
  constexpr auto options = fs::directory_options::skip_permission_denied;
  for (auto at = fs::recursive_directory_iterator(project.directory, options, ignored);
       at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    if (at->path().filename() == ".cudadent" || at->path().filename() == ".git") {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(ignored)) {
      files.push_back(at->path().lexically_relative(project.directory));
    }
  }
  return files;
}

// The judges' files and the text of all of them.
struct Judges {
  std::set<std::string> files{};
  std::string text{};
};

Judges judges_of(const Project& project) {
  Judges judges;
  const auto take = [&](const std::string& as_written) {
    const std::string name = fs::path(as_written).lexically_normal().string();
    if (name.empty() || !judges.files.insert(name).second) return false;
    if (const auto content = whole_file(project.directory + "/" + name)) judges.text += *content + "\n";
    return true;
  };
  for (const Callable* judge : {&project.reference, &project.baseline, &project.torch_baseline}) {
    take(judge->source);
    for (const std::string& source : judge->sources) take(source);
  }
  const std::vector<fs::path> all = files_of(project);
  for (bool grows = true; grows;) {
    grows = false;
    for (const fs::path& file : all) {
      if (!is_kernel(project, file.string()) && names_file(judges.text, file)) grows |= take(file.string());
    }
  }
  return judges;
}

Diagnostic refused(const std::string& path, const std::string& why) {
  return {.message = fmt::format("a proposal may not change '{}': {}", path, why),
          .fix = "change the kernel's own sources, its headers, or point.toml",
          .code = codes::proposal_not_allowed};
}

// Of the CUDA baseline, where that stands inside the project.
bool is_of_baseline(const Project& project, const fs::path& path) {
  if (project.cuda_baseline.empty()) return false;
  const fs::path inside = path.lexically_relative(fs::path(project.cuda_baseline).lexically_normal());
  return !inside.empty() && *inside.begin() != "..";
}

// Why this path is none that anybody may propose; empty: it may be one.
std::string objection_to(const Project& project, const Judges& judges, const fs::path& path) {
  if (path.empty() || path.is_absolute() || *path.begin() == "..") return "it is outside the project";
  for (const fs::path& part : path) {
    if (part == ".git" || part == ".cudadent") return "it is the tool's own";
  }
  const std::string name = path.string();
  if (name == "cudadent.toml" || name == project_rules_file) return "it says what is judged, and how";
  if (judges.files.contains(name)) return "what judges reads it";
  if (is_of_baseline(project, path)) return "it is what to beat";
  if (is_kernel(project, name) || name == point_file_name) return "";
  if (names_file(judges.text, path)) return "what judges would read it";
  return is_header(path) ? "" : "it is no part of the kernel";
}

// ---- cudadent.toml ------------------------------------------------------------------------------------------------

bool same(const Callable& a, const Callable& b) {
  return a.kind == b.kind && a.source == b.source && a.entry == b.entry && a.sources == b.sources &&
         a.libraries == b.libraries && a.torch_tensors == b.torch_tensors;
}

bool same(const TensorSpec& a, const TensorSpec& b) {
  return a.name == b.name && a.role == b.role && a.dtype == b.dtype && a.shape == b.shape && a.stride == b.stride &&
         a.init == b.init && a.tolerance == b.tolerance;
}

bool same(const ParamSpec& a, const ParamSpec& b) {
  return a.name == b.name && a.default_value == b.default_value && a.choices == b.choices && a.min == b.min &&
         a.max == b.max;
}

bool same(const Workload& a, const Workload& b) {
  return a.name == b.name && a.values == b.values;
}

bool same(const Hypothesis& a, const Hypothesis& b) {
  return a.variant == b.variant && a.says == b.says && a.fix == b.fix;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return same(x, y); });
}

std::vector<TensorSpec> judged_tensors(const Project& project) {
  std::vector<TensorSpec> tensors = project.tensors;
  std::erase_if(tensors, [](const TensorSpec& tensor) { return tensor.role == TensorRole::scratch; });
  return tensors;
}

bool same(const Thresholds& a, const Thresholds& b) {
  return a.ladder == b.ladder && a.small_workload == b.small_workload && a.target_workload == b.target_workload &&
         a.baseline_drift == b.baseline_drift && a.least_gain == b.least_gain && a.max_iterations == b.max_iterations &&
         a.max_minutes == b.max_minutes;
}

// What the build gate asks of an instance may not sink.
bool asks_less(const Project& before, const Project& after) {
  for (const CudaInstance& old : before.instances) {
    for (const CudaInstance& now : after.instances) {
      const bool less = now.max_spill_bytes > old.max_spill_bytes || now.min_occupancy < old.min_occupancy;
      if (now.name == old.name && less) return true;
    }
  }
  return false;
}

// The first thing that judges and differs; empty: all of it is the same.
std::string changed_rule(const Project& a, const Project& b) {
  if (!same(judged_tensors(a), judged_tensors(b))) return "tensors or their tolerances";
  if (!same(a.params, b.params)) return "parameters";
  if (!same(a.workloads, b.workloads)) return "workloads";
  if (!same(a.reference, b.reference) || !same(a.hypotheses, b.hypotheses)) return "the reference";
  if (!same(a.baseline, b.baseline) || !same(a.torch_baseline, b.torch_baseline) || a.cuda_baseline != b.cuda_baseline)
    return "the baseline";
  if (a.random_workloads != b.random_workloads || a.hard_values != b.hard_values ||
      a.call_limit_seconds != b.call_limit_seconds)
    return "what correctness is asked of";
  if (!same(a.thresholds, b.thresholds)) return "thresholds";
  if (a.cost.machine_per_hour != b.cost.machine_per_hour || a.cost.agent_per_hour != b.cost.agent_per_hour)
    return "prices";
  if (a.machine.status != b.machine.status || a.machine.start != b.machine.start || a.machine.stop != b.machine.stop)
    return "commands of the machine";
  if (a.include_directories != b.include_directories || a.cpu_flags != b.cpu_flags)
    return "what the reference is compiled with";
  if (a.cuda_device != b.cuda_device || asks_less(a, b)) return "limits of the build";
  return "";
}

// Beside a judge that lies outside of the project.
bool is_beside_a_judge(const Judges& judges, const fs::path& path) {
  if (path.empty() || *path.begin() != "..") return false;
  return std::any_of(judges.files.begin(), judges.files.end(), [&](const std::string& judge) {
    const fs::path folder = fs::path(judge).lexically_normal().parent_path();
    if (folder.empty() || *folder.begin() != "..") return false;
    const fs::path inside = path.lexically_relative(folder);
    return !inside.empty() && *inside.begin() != "..";
  });
}

// Whatever its path is called: links lead elsewhere, and a compiler finds more than a text names.
std::string changed_judge(const Project& before, const Judges& judges, const Project& after) {
  std::set<std::string> files = judges_of(after).files;
  files.insert(judges.files.begin(), judges.files.end());
  for (const std::string& name : files) {
    if (is_kernel(before, name) || name == "cudadent.toml") continue;
    if (is_kernel(after, name)) return "cudadent.toml makes " + name + " a part of the kernel, and it judges";
    if (whole_file(before.directory + "/" + name) != whole_file(after.directory + "/" + name)) return name + " judges";
  }
  for (const auto& [role, judge] :
       {std::pair("reference", &before.reference), std::pair("baseline", &before.baseline)}) {
    if (judge->kind != CallableKind::cpp) continue;
    const auto was = cpu_build_hash(before, *judge, role), is = cpu_build_hash(after, *judge, role);
    if (was && is && *was != *is) return fmt::format("what is compiled into the {} judges", role);
  }
  return "";
}

}  // namespace

std::set<std::string> judging_files(const Project& project) {
  return judges_of(project).files;
}

std::vector<std::string> editable_files(const Project& project) {
  const Judges judges = judges_of(project);
  std::vector<std::string> files;
  for (const fs::path& file : files_of(project))
    if (objection_to(project, judges, file).empty()) files.push_back(file.string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string judging_change(const Project& before, const Project& after, const Snapshot& change) {
  const auto prefix = run_git(before.directory, {"rev-parse", "--show-prefix"});
  if (!prefix) return "the repository cannot be read";
  const Judges judges = judges_of(before);
  bool only_the_kernel = true;
  for (const std::string& file : change.files) {
    const fs::path path = prefix->empty() ? fs::path(file) : fs::path(file).lexically_relative(*prefix);
    const std::string name = path.string();
    only_the_kernel = only_the_kernel && (is_kernel(before, name) || name == point_file_name);
    if (name == "cudadent.toml") continue;
    if ((judges.files.contains(name) && !is_kernel(before, name)) || is_beside_a_judge(judges, path))
      return file + " judges";
    if (name == project_rules_file) return file + " says what is advised";
    if (path.filename() == ".gitattributes") return file + " says how files are checked out";
    if (is_of_baseline(before, path)) return file + " is what to beat";
  }
  if (only_the_kernel) return "";
  if (const std::string rule = changed_rule(before, after); !rule.empty()) return "cudadent.toml changes " + rule;
  return changed_judge(before, judges, after);
}

Result<Done> check_allowed(const Project& project, const FileChanges& files) {
  const Judges judges = judges_of(project);
  for (const auto& [path, content] : files) {
    const std::string objection = objection_to(project, judges, fs::path(path).lexically_normal());
    if (!objection.empty()) return refused(path, objection);
  }
  return Done{};
}

}  // namespace flashmoe::workflow
