#include "workflow/compare/versions.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "support/text.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// "<commit>-<pid>": whose it is can be told after a crash.
bool owner_is_gone(const std::string& name) {
  const auto dash = name.rfind('-');
  if (dash == std::string::npos) return false;
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data() + dash + 1, name.data() + name.size(), pid);
  if (error != std::errc{} || end != name.data() + name.size() || pid <= 0) return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

// What `git worktree remove` does, without a process: this must also work after an interrupt, when none may start.
// The worktree's .git file names its administrative directory ("gitdir: <path>").
void remove_worktree(const std::string& path) {
  std::error_code error;
  std::ifstream file(fs::path(path) / ".git");
  std::string line;
  constexpr std::string_view lead = "gitdir: ";
  if (std::getline(file, line) && line.starts_with(lead)) {
    const fs::path administration(line.substr(lead.size()));
    if (administration.parent_path().filename() == "worktrees") fs::remove_all(administration, error);
  }
  fs::remove_all(path, error);
}

void remove_left_behind(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (owner_is_gone(entry.path().filename().string())) remove_worktree(entry.path().string());
  }
}

// A commit whatever else is called so: a directory of that name would stand in for what an edit is compared with.
bool is_full_hash(const std::string& name) {
  return (name.size() == 40 || name.size() == 64) && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Result<std::unique_ptr<Worktree>> Worktree::make(const std::string& project, const std::string& commit) {
  std::error_code error;
  const std::string directory = fs::weakly_canonical(project, error).string();
  const auto top = run_git(directory, {"rev-parse", "--show-toplevel"});
  if (!top) {
    return Diagnostic{.message = "'" + commit + "' is no directory with a cudadent.toml, and " + directory +
                                 " is in no git repository (" + top.error().message + ")",
                      .fix = "give a directory, or run git init and commit the project",
                      .code = codes::usage_version};
  }
  const auto full = run_git(directory, {"rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{commit}"});
  if (!full) {
    return Diagnostic{.message = "'" + commit + "' is neither a directory with a cudadent.toml nor a commit of " + *top,
                      .fix = "git log --oneline shows the commits",
                      .code = codes::usage_version};
  }
  const fs::path relative = fs::relative(directory, fs::canonical(*top, error), error);
  const fs::path parent = fs::path(directory) / ".cudadent" / "worktrees";
  keep_out_of_git(parent.parent_path());
  fs::create_directories(parent, error);
  remove_left_behind(parent);

  std::unique_ptr<Worktree> made(new Worktree());
  made->commit_ = *full;
  made->path_ = (parent / (full->substr(0, 12) + "-" + std::to_string(::getpid()))).string();
  // Two versions may be the same commit: each has a place of its own.
  for (int again = 2; fs::exists(made->path_, error); ++again) {
    made->path_ =
        (parent / (full->substr(0, 12) + "." + std::to_string(again) + "-" + std::to_string(::getpid()))).string();
  }
  const auto added = run_git(directory, {"worktree", "add", "--detach", "--quiet", made->path_, *full});
  if (!added) {
    return Diagnostic{.message = "no worktree for " + commit + ": " + added.error().message,
                      .fix = "git worktree prune; then try again"};
  }
  made->project_directory_ = (fs::path(made->path_) / relative).lexically_normal().string();
  if (!fs::exists(fs::path(made->project_directory_) / "cudadent.toml", error)) {
    return Diagnostic{.message = "commit " + full->substr(0, 12) + " has no " + (relative / "cudadent.toml").string(),
                      .fix = "choose a commit that has the kernel project, or give a directory",
                      .code = codes::usage_version};
  }
  return made;
}

std::string Worktree::outlasting(const std::string& text) const {
  return replaced_all(text, path_ + "/", "");
}

Worktree::~Worktree() {
  if (!path_.empty()) remove_worktree(path_);
}

Result<Version> resolve_version(const Project& project, const std::string& name) {
  Version version;
  version.name = name;
  std::error_code error;
  std::string directory;
  if (name == ".") {
    directory = project.directory;
  } else if (!is_full_hash(name) && fs::exists(fs::path(name) / "cudadent.toml", error)) {
    directory = fs::canonical(name, error).string();
  }
  if (!directory.empty()) {
    const TreeState tree = tree_state(directory);
    version.commit = tree.commit;
    version.dirty = tree.dirty;
  } else {
    auto worktree = Worktree::make(project.directory, name);
    if (!worktree) return worktree.error();
    version.worktree = std::move(*worktree);
    version.commit = version.worktree->commit();
    directory = version.worktree->project_directory();
  }
  auto loaded = load_project(directory);
  if (!loaded) return loaded.error();
  version.project = std::move(*loaded);
  return version;
}

Result<Runnable> make_runnable(const Project& project, const Callable& callable, const std::string& role,
                               const std::string& label, const BuildOptions& options) {
  if (callable.kind == CallableKind::python) return python_runnable(project, callable, role, label);
  if (callable.kind != CallableKind::cpp) {
    return Diagnostic{.message = "the " + role + " of " + project.name + " cannot run on the CPU",
                      .fix = "declare a C++ or Python entry for it, or run its CUDA kernels with --device virtual:l4",
                      .file = project.file,
                      .line = callable.line,
                      .code = codes::project_no_callable};
  }
  auto built = build_cpu(project, callable, role, options);
  if (!built) return built.error();
  return library_runnable(*built, label);
}

Result<Done> check_comparable(const Version& base, const Version& candidate, const Workload& workload) {
  const auto differs = [&](const std::string& what) {
    return Diagnostic{.message = base.name + " and " + candidate.name + " do not compute the same thing: " + what,
                      .fix = "compare versions with the same tensors and workloads",
                      .file = candidate.project.file,
                      .code = codes::usage_not_comparable};
  };
  // Scratch is the kernel's own affair.
  const auto judged = [](const Project& project) {
    std::vector<TensorSpec> tensors = project.tensors;
    std::erase_if(tensors, [](const TensorSpec& tensor) { return tensor.role == TensorRole::scratch; });
    return tensors;
  };
  const std::vector<TensorSpec> a = judged(base.project);
  const std::vector<TensorSpec> b = judged(candidate.project);
  const bool same = std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorSpec& x, const TensorSpec& y) {
    return x.name == y.name && x.role == y.role && x.dtype == y.dtype && x.shape == y.shape && x.stride == y.stride &&
           x.tolerance == y.tolerance;
  });
  if (!same) return differs("the tensors or their tolerances differ");
  for (const Version* version : {&base, &candidate}) {
    const auto& workloads = version->project.workloads;
    const auto found =
        std::find_if(workloads.begin(), workloads.end(), [&](const Workload& w) { return w.name == workload.name; });
    if (found == workloads.end()) return differs("workload " + workload.name + " is missing in " + version->name);
    if (found->values != workload.values) return differs("workload " + workload.name + " has other values");
  }
  return Done{};
}

Project judge_of(Project judge, const Project& candidate) {
  std::vector<TensorSpec> tensors = candidate.tensors;  // in this order, which the candidate's arguments count in
  for (TensorSpec& tensor : tensors) {
    const auto own = std::find_if(judge.tensors.begin(), judge.tensors.end(),
                                  [&](const TensorSpec& other) { return other.name == tensor.name; });
    if (tensor.role != TensorRole::scratch && own != judge.tensors.end()) tensor = *own;
  }
  judge.tensors = std::move(tensors);
  judge.point = candidate.point;
  return judge;
}

}  // namespace flashmoe::workflow
