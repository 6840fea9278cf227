#include "workflow/compile/cuda_compile.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "devices/device.hpp"
#include "images/elf.hpp"
#include "support/clock.hpp"
#include "support/kernel_files.hpp"
#include "support/process.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
#include "workflow/compile/cache.hpp"
#include "workflow/compile/compile_error.hpp"
#include "workflow/compile/confine_compiler.hpp"
#include "workflow/compile/preprocess.hpp"
#include "workflow/compile/ptx_facts.hpp"
#include "workflow/compile/scratch.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

Command nvcc_command(const Project& project, const CudaToolkit& toolkit, const CudaTarget& target,
                     const BuildOptions& options, const fs::path& scratch) {
  Command command{.argv = {toolkit.nvcc, "-std=c++17", "-arch=" + target.architecture, "-lineinfo"},
                  .directory = project.directory};
  confine_compiler(command, project, scratch);
  for (const std::string& directory : project.include_directories) command.argv.push_back("-I" + directory);
  for (const std::string& directory : own_include_directories()) command.argv.push_back("-I" + directory);
  for (const std::string& flag : point_flags(project)) command.argv.push_back(flag);
  command.argv.insert(command.argv.end(), project.cuda_flags.begin(), project.cuda_flags.end());
  command.limit = options.compile_limit;
  return command;
}

// The tool that refused is known by what it left behind: no PTX means the compiler proper, PTX without a cubin ptxas.
Diagnostic explain_nvcc_failure(const Project& project, const CudaTarget& target, const Finished& ran,
                                const fs::path& ptx) {
  Diagnostic why{.message = shortened(ran.err.empty() ? ran.describe() : ran.err, 20),
                 .fix = fmt::format("correct {} at the line that the compiler names", target.source),
                 .file = (fs::path(project.directory) / target.source).string(),
                 .code = ran.interrupted ? codes::interrupted : codes::build_compile_failed};
  if (ran.timed_out || ran.interrupted) {
    why.message = "nvcc " + ran.describe();
    why.fix = ran.timed_out ? "instantiate fewer kernels per source file" : "";
    return why;
  }
  const PtxFacts facts = read_ptx(whole_file(ptx.string()).value_or(""));
  const Architecture limits =
      find_architecture(target.architecture) ? *find_architecture(target.architecture) : all_architectures().front();
  for (const PtxEntry& entry : facts.entries)
    if (entry.static_shared_bytes > limits.shared_bytes_per_cta_default) {
      why.message = fmt::format(
          "{} declares {} bytes of static shared memory ({:.1f} KB); at most {} ({} KB) may be "
          "static, on every GPU\n{}",
          demangled(entry.name), entry.static_shared_bytes, static_cast<double>(entry.static_shared_bytes) / 1024,
          limits.shared_bytes_per_cta_default, limits.shared_bytes_per_cta_default / 1024, why.message);
      why.fix = fmt::format(
          "use dynamic shared memory: in {} replace the array by `extern __shared__ char buffer[];`, declare "
          "shared_bytes = \"{}\" for this instance in cudadent.toml (at most {} on {}), and call "
          "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before the launch",
          target.source, entry.static_shared_bytes, limits.shared_bytes_per_cta_optin, target.architecture);
      return why;
    }
  if (!facts.external_functions.empty()) {
    const std::string name = demangled(facts.external_functions.front());
    why.message = fmt::format("undefined symbol: {} calls \"{}\", which no file defines for the device\n{}",
                              target.source, name, why.message);
    why.fix = fmt::format(
        "define it in {}: __device__ ... {} {{ ... }}, or include the header that does; if another .cu "
        "file defines it, add \"-rdc=true\" to cuda.flags in cudadent.toml",
        target.source, name);
  }
  return why;
}

void compile_one(const Project& project, const CudaToolkit& toolkit, const BuildOptions& options,
                 CompiledTarget& result) {
  const CudaTarget& target = result.target;
  const std::string stem = fs::path(target.source).stem().string();
  const ScratchDirectory scratch(cache_root(project, options) / fmt::format("{}.{}", stem, target.architecture));
  if (std::error_code error; !fs::is_directory(scratch.path, error)) {
    result.failure = {.message = cache_root(project, options).string() + " cannot be written: builds go there",
                      .fix = "make the project's directory writable, or copy the project",
                      .code = codes::environment_disk};
    return;
  }
  Command preprocessor = nvcc_command(project, toolkit, target, options, scratch.path);
  preprocessor.argv.emplace_back("-E");
  preprocessor.argv.push_back(target.source);
  const auto text = preprocess(preprocessor);
  if (!text || !text->ok()) {
    result.failure = text ? explain_nvcc_failure(project, target, *text, {}) : text.error();
    result.interrupted = text && text->interrupted;
    return;
  }
  std::string identity = toolkit.version + "\n" + target.architecture + "\n" + sha256_hex(text->out);
  for (const std::string& flag : project.cuda_flags) identity += "\n" + flag;
  const fs::path directory = cache_root(project, options) / sha256_hex(identity);
  const fs::path cubin = directory / fmt::format("{}.{}.cubin", stem, target.architecture);
  const fs::path note = directory / fmt::format("{}.{}.json", stem, target.architecture);
  result.path = cubin.string();
  if (auto kept = cached_hash(cubin, note)) {
    result.content_hash = std::move(*kept);
    result.from_cache = true;
  } else {
    std::error_code made;
    fs::create_directories(directory, made);
    const fs::path fresh = scratch.path / "out.cubin";
    Command compile = nvcc_command(project, toolkit, target, options, scratch.path);
    for (const std::string& flag : {std::string("-cubin"), std::string("--keep"), std::string("--keep-dir"),
                                    scratch.path.string(), std::string("-o"), fresh.string(), target.source})
      compile.argv.push_back(flag);
    const auto ran = run_process(compile);
    if (!ran || !ran->ok()) {
      result.failure = ran ? explain_nvcc_failure(project, target, *ran, scratch.path / (stem + ".ptx")) : ran.error();
      result.interrupted = ran && ran->interrupted;
      return;
    }
    // What was compiled must be what was hashed: nvcc has kept what it compiled, and is asked again where it has not.
    if (whole_file((scratch.path / (stem + ".cpp1.ii")).string()) != text->out) {
      const auto after = run_process(preprocessor);
      if (!after || !after->ok() || after->out != text->out) {
        result.failure = {.message = target.source + " changed while it was compiled",
                          .fix = "run it again when nothing writes to it"};
        return;
      }
    }
    const auto hash = sha256_of_file(fresh.string());
    if (!hash) {
      result.failure = hash.error();
      return;
    }
    result.content_hash = *hash;
    std::error_code failed;
    fs::rename(fresh, cubin, failed);
    std::error_code ignored;
    fs::rename(scratch.path / (stem + ".ptx"), directory / fmt::format("{}.{}.ptx", stem, target.architecture),
               ignored);
    note_built(note, result.content_hash, {{"toolkit", toolkit.version}});
  }
  const auto bytes = read_bytes(result.path);
  if (!bytes) {
    result.failure = bytes.error();
    return;
  }
  auto read = read_cubin(*bytes);
  if (!read) {
    result.failure = {.message = result.path + ": " + read.error().message, .fix = read.error().fix};
    return;
  }
  result.cubin = std::move(*read);
  result.compiled = true;
}

}  // namespace

unsigned parallel_compilers(unsigned wanted) {
  if (wanted > 0) return wanted;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const std::string available = value_in_file("/proc/meminfo", "MemAvailable");  // "12345 kB"
  const std::uint64_t kilobytes = std::strtoull(available.c_str(), nullptr, 10);
  return available.empty() ? cores : std::clamp(static_cast<unsigned>(kilobytes >> 21), 1U, cores);
}

std::vector<CompiledTarget> compile_cuda(const Project& project, const CudaToolkit& toolkit,
                                         const BuildOptions& options, Progress& progress) {
  std::vector<CompiledTarget> results;
  for (const std::string& architecture : project.cuda_architectures)
    for (const std::string& source : project.cuda_sources) {
      results.emplace_back();
      results.back().target = {source, architecture};
    }
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> finished{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < results.size() && !interrupted(); i = next++) {
      const auto begin = std::chrono::steady_clock::now();
      compile_one(project, toolkit, options, results[i]);
      results[i].seconds = seconds_since(begin);
      const std::size_t done = ++finished;
      progress.update(fmt::format("{}/{} {}", done, results.size(), results[i].target.architecture),
                      static_cast<double>(done) / static_cast<double>(results.size()));
    }
  };
  progress.update(fmt::format("0/{} {}", results.size(),
                              project.cuda_architectures.empty() ? std::string() : project.cuda_architectures.front()),
                  0);
  const std::size_t workers = std::min<std::size_t>(parallel_compilers(options.parallel), results.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(work);
  if (!results.empty()) work();
  for (std::jthread& thread : threads) thread.join();
  if (interrupted())
    for (CompiledTarget& result : results)
      if (!result.compiled) result.interrupted = true;
  return results;
}

}  // namespace flashmoe::workflow
