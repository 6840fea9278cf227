// C++ sources of a kernel project -> one shared library, cached by the content of everything that went into it.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/sha256.hpp"
#include "support/text.hpp"
#include "workflow/compile/cache.hpp"
#include "workflow/compile/compile_error.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/compile/confine_compiler.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/compile/preprocess.hpp"
#include "workflow/compile/scratch.hpp"
#include "workflow/compile/symbols.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

struct Plan {
  CxxCompiler compiler;
  std::vector<std::string> sources{};        // relative to the project
  std::vector<std::string> own_flags{};      // the point's and the project's
  std::vector<std::string> compile_flags{};  // all, without the output
  std::vector<std::string> link_flags{};
  std::map<std::string, std::string> libraries{};  // path -> SHA-256, of those that are files of ours or the project's
};

Result<Plan> plan_build(const Project& project, const Callable& callable, const std::string& role) {
  auto compiler = find_cxx_compiler();
  if (!compiler) return compiler.error();
  Plan plan{.compiler = std::move(*compiler), .sources = {callable.source}};
  plan.sources.insert(plan.sources.end(), callable.sources.begin(), callable.sources.end());
  for (const std::string& source : plan.sources)
    if (std::error_code ignored; !fs::is_regular_file(fs::path(project.directory) / source, ignored))
      return Diagnostic{.message = fmt::format("there is no file \"{}\" in {}", source, project.directory),
                        .fix = "create it, or correct `source`",
                        .file = project.file,
                        .line = callable.line,
                        .code = codes::project_file};
  plan.compile_flags = {"-std=c++20", "-O2", "-fPIC"};
  for (const std::string& directory : project.include_directories) plan.compile_flags.push_back("-I" + directory);
  for (const std::string& directory : own_include_directories()) {
    plan.compile_flags.emplace_back("-isystem");
    plan.compile_flags.push_back(directory);
  }
  // What is right, and what to beat, are the same at every point.
  if (role == "kernel") plan.own_flags = point_flags(project);
  plan.own_flags.insert(plan.own_flags.end(), project.cpu_flags.begin(), project.cpu_flags.end());
  plan.compile_flags.insert(plan.compile_flags.end(), plan.own_flags.begin(), plan.own_flags.end());

  for (const std::string& library : callable.libraries) {
    std::string path;
    if (library == "flashmoe") {
      auto found = find_flashmoe_library();
      if (!found) return found.error();
      path = *found;
    } else if (library.find('/') != std::string::npos) {
      path = absolute_path(fs::path(project.directory) / library).lexically_normal().string();
    } else {
      plan.link_flags.push_back("-l" + library);
      continue;
    }
    auto hash = sha256_of_file(path);
    if (!hash)
      return Diagnostic{.message = fmt::format("cannot read the library \"{}\" ({})", library, path),
                        .fix = "build it, or correct that entry of `libraries`",
                        .file = project.file,
                        .line = callable.line,
                        .code = codes::environment_no_library};
    plan.libraries[path] = *hash;
    plan.link_flags.push_back(path);
    plan.link_flags.push_back("-Wl,-rpath," + fs::path(path).parent_path().string());
  }
  return plan;
}

// A flag may make a compiler run anything (-wrapper, -fplugin, -B): it reads toolchain and project, and writes into its
// scratch directory alone.
Command compiler_command(const Plan& plan, const Project& project, const BuildOptions& options,
                         const fs::path& scratch = {}) {
  Command command{.argv = plan.compiler.argv, .directory = project.directory};
  command.argv.insert(command.argv.end(), plan.compile_flags.begin(), plan.compile_flags.end());
  confine_compiler(command, project, scratch);
  for (const auto& [path, hash] : plan.libraries) command.confinement->readable.push_back(path);
  command.limit = options.compile_limit;
  return command;
}

// A precompiled header beside one of the project's own (`sum.hpp.gch`): the compiler would take it for the header,
// whatever is in it, and the preprocessor, whose output is hashed, would not. Empty: there is none.
std::string precompiled_beside(const std::string& preprocessed, const std::string& directory) {
  for (const std::string& header : files_read(preprocessed)) {
    // The system's own are the toolchain's affair.
    if (header.starts_with("/") && !header.starts_with(directory)) continue;
    std::error_code ignored;
    if (fs::exists(fs::path(directory) / (header + ".gch"), ignored)) return header + ".gch";
  }
  return {};
}

// Sources after preprocessing, with every macro that is defined: headers, -march=native and the compiler's own
// features are all in there, so an equal hash means an equal result.
// `ask`: preprocess, or run_process where an earlier answer may not serve.
Result<std::string> hash_build(const Plan& plan, const Project& project, const Callable& callable,
                               const BuildOptions& options,
                               Result<Finished> (*ask)(const Command&, const std::function<void()>&) = preprocess) {
  std::string everything = plan.compiler.version + "\n" + callable.entry + "\n";
  for (const std::string& flag : plan.own_flags) everything += flag + "\n";
  for (const std::string& flag : plan.link_flags) everything += flag + "\n";
  for (const auto& [path, hash] : plan.libraries) everything += hash + "\n";
  for (const std::string& source : plan.sources) {
    Command command = compiler_command(plan, project, options);
    for (const char* flag : {"-E", "-dD"}) command.argv.emplace_back(flag);
    command.argv.push_back(source);
    const auto ran = ask(command, options.idle);
    if (!ran) return ran.error();
    if (!ran->ok()) return explain_compile_error(command, *ran, source, project.directory);
    if (const std::string found = precompiled_beside(ran->out, project.directory); !found.empty())
      return Diagnostic{.message = fmt::format("{} would be compiled instead of the header beside it", found),
                        .fix = "remove it: what is compiled must be what was read",
                        .file = project.file,
                        .line = callable.line,
                        .code = codes::build_compile_failed};
    // With -g the preprocessor writes down where it ran; the same sources are the same in any worktree.
    everything += sha256_hex(replaced_all(ran->out, project.directory, ".")) + "\n";
  }
  return sha256_hex(everything);
}

Result<std::vector<ObjectFile>> compile_objects(const Plan& plan, const Project& project, const fs::path& directory,
                                                const BuildOptions& options) {
  std::vector<ObjectFile> objects;
  for (const std::string& source : plan.sources) {
    const std::string object = (directory / (std::to_string(objects.size()) + ".o")).string();
    Command command = compiler_command(plan, project, options, directory);
    // Paths inside the project are written relative, so that the same sources give the same bytes anywhere.
    for (const std::string& flag : {std::string("-g"), "-ffile-prefix-map=" + project.directory + "=.",
                                    std::string("-c"), source, std::string("-o"), object})
      command.argv.push_back(flag);
    const auto ran = run_process(command, options.idle);
    if (!ran) return ran.error();
    if (!ran->ok()) return explain_compile_error(command, *ran, source, project.directory);
    objects.push_back({source, object});
  }
  return objects;
}

// Where the compiler would take this library from; empty when nowhere.
std::string library_path(const Plan& plan, const std::string& file) {
  Command command{.argv = plan.compiler.argv, .limit = std::chrono::seconds(10)};
  command.argv.push_back("-print-file-name=" + file);
  const auto ran = run_process(command);
  if (!ran || !ran->ok()) return {};
  const std::string path = ran->out.substr(0, ran->out.find('\n'));
  return path.find('/') == std::string::npos ? std::string() : path;
}

Diagnostic explain_link_error(const Plan& plan, const Project& project, const Callable& callable,
                              const std::string& role, const std::vector<ObjectFile>& objects, const Finished& ran) {
  std::vector<std::string> libraries;
  for (const char* file : {"libstdc++.so.6", "libm.so.6", "libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"})
    libraries.push_back(library_path(plan, file));
  for (const auto& [path, hash] : plan.libraries) libraries.push_back(path);
  for (const std::string& library : callable.libraries)
    libraries.push_back(library_path(plan, "lib" + library + ".so"));
  for (const std::string& flag : project.cpu_flags)
    if (flag == "-fopenmp") libraries.push_back(library_path(plan, "libgomp.so.1"));
  const auto undefined = find_undefined(objects, libraries);
  if (undefined.empty())
    return {.message = "the linker failed: " + ran.describe() + "\n" + ran.err,
            .fix = fmt::format("correct {}.libraries or cpu.flags in cudadent.toml", role),
            .file = project.file,
            .line = callable.line,
            .code = codes::build_compile_failed};
  std::vector<NamedLibrary> candidates;
  if (const auto own = find_flashmoe_library()) candidates.push_back({"flashmoe", *own});
  for (const auto& [name, file] : std::array<std::pair<const char*, const char*>, 6>{{{"gomp", "libgomp.so.1"},
                                                                                      {"dl", "libdl.so.2"},
                                                                                      {"pthread", "libpthread.so.0"},
                                                                                      {"rt", "librt.so.1"},
                                                                                      {"openblas", "libopenblas.so"},
                                                                                      {"cuda", "libcuda.so"}}})
    if (const std::string path = library_path(plan, file); !path.empty()) candidates.push_back({name, path});
  return explain_undefined(undefined, objects, candidates, callable, role, project);
}

}  // namespace

Result<std::string> cpu_build_hash(const Project& project, const Callable& callable, const std::string& role,
                                   const BuildOptions& options) {
  const auto plan = plan_build(project, callable, role);
  return plan ? hash_build(*plan, project, callable, options) : plan.error();
}

Result<BuiltCallable> build_cpu(const Project& project, const Callable& callable, const std::string& role,
                                const BuildOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (callable.kind != CallableKind::cpp)
    return Diagnostic{.message = fmt::format("the {} is not a C++ callable: there is nothing to build", role),
                      .file = project.file,
                      .line = callable.line};
  const auto plan = plan_build(project, callable, role);
  if (!plan) return plan.error();
  const auto hash = hash_build(*plan, project, callable, options);
  if (!hash) return hash.error();

  const fs::path directory = cache_root(project, options) / *hash;
  BuiltCallable built{.role = role,
                      .entry = callable.entry,
                      .library = (directory / (role + ".so")).string(),
                      .build_hash = *hash,
                      .compiler = plan->compiler.version,
                      .libraries = plan->libraries};
  const fs::path note = directory / (role + ".json");
  if (auto kept = cached_hash(built.library, note)) {
    built.content_hash = std::move(*kept);
    built.from_cache = true;
    built.seconds = seconds_since(begin);
    return built;
  }

  const ScratchDirectory scratch(directory / role);
  if (std::error_code ignored; !fs::is_directory(scratch.path, ignored))
    return Diagnostic{.message = "cannot make the build directory " + directory.string(),
                      .fix = "make the project directory writable, or free disk space",
                      .code = codes::environment_disk};
  const auto objects = compile_objects(*plan, project, scratch.path, options);
  if (!objects) return objects.error();
  const fs::path linked = scratch.path / (role + ".so");
  Command link = compiler_command(*plan, project, options, scratch.path);
  for (const char* flag : {"-shared", "-Wl,--no-undefined", "-Wl,-z,now", "-o"}) link.argv.emplace_back(flag);
  link.argv.push_back(linked.string());
  for (const ObjectFile& object : *objects) link.argv.push_back(object.path);
  link.argv.insert(link.argv.end(), plan->link_flags.begin(), plan->link_flags.end());
  const auto ran = run_process(link, options.idle);
  if (!ran) return ran.error();
  if (ran->timed_out || ran->interrupted) return explain_compile_error(link, *ran, "linking", project.directory);
  if (!ran->ok()) return explain_link_error(*plan, project, callable, role, *objects, *ran);
  if (auto entry = check_entry(linked.string(), callable, role, project); !entry) return entry.error();

  // What was compiled must be what was hashed: an edit in between would stay in the cache under a name not its own.
  const auto after = hash_build(*plan, project, callable, options, run_process);
  if (!after) return after.error();
  if (*after != *hash)
    return Diagnostic{.message = fmt::format("the sources of the {} changed while they were built", role),
                      .fix = "run it again when nothing writes to them",
                      .file = project.file,
                      .line = callable.line,
                      .code = codes::files_changed};

  auto content = sha256_of_file(linked.string());
  if (!content) return content.error();
  built.content_hash = *content;
  std::error_code failed;
  fs::rename(linked, built.library, failed);
  note_built(note, built.content_hash, {{"entry", built.entry}, {"compiler", built.compiler}});
  if (failed) {
    return Diagnostic{.message = "cannot write " + built.library + ": " + failed.message(),
                      .code = codes::environment_disk};
  }
  built.seconds = seconds_since(begin);
  return built;
}

}  // namespace flashmoe::workflow
