// CPU, compilers, counters, clocks and disk: what the kernel's own files say.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "support/confinement.hpp"
#include "support/kernel_files.hpp"
#include "support/perf_events.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

std::set<std::string> cpu_flags() {
  std::istringstream words(value_in_file("/proc/cpuinfo", "flags"));
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  return flags;
}

}  // namespace

Observations examine_cpu() {
  Observations seen;
  const auto flags = cpu_flags();
  const auto has = [&](const char* flag) { return flags.contains(flag); };
  std::vector<std::string> isa{"scalar"};
  if (has("avx2") && has("fma") && has("f16c")) isa.emplace_back("avx2");
  if (has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq")) isa.emplace_back("avx512");
  if (has("amx_tile") && has("amx_bf16")) isa.emplace_back("amx");
  const std::string model = value_in_file("/proc/cpuinfo", "model name");
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const std::string best = isa.back();
  seen.facts.cpu = CpuFacts{.model = model, .cores = cores, .isa = std::move(isa)};
  const std::string what = fmt::format("{}, {} cores, {}", model.empty() ? "CPU" : model, cores, best);
  if (best == "scalar")
    seen.warn("cpu", what + ": the library runs its scalar path", "use a machine with AVX2, AVX-512 or AMX for speed");
  else
    seen.ok("cpu", what);
  return seen;
}

Observations examine_compilers() {
  Observations seen;
  const auto cxx = find_cxx_compiler();
  CompilerFacts facts;
  if (cxx) {
    facts.cxx = cxx->version;
    seen.ok("compilers", cxx->version, Need::cxx);
  } else {
    seen.warn("compilers", cxx.error().message + "; kernel projects in C++ want one, cudadent run does not",
              cxx.error().fix, Need::cxx);
  }
  const auto library = find_flashmoe_library();
  if (library) {
    facts.flashmoe_library = *library;
    seen.ok("compilers", "libflashmoe.so: " + *library);
  } else {
    seen.warn("compilers", library.error().message, library.error().fix, Need::library);
  }
  const auto headers = own_include_directories();
  if (!headers.empty()) facts.headers = headers.front();
  if (headers.empty())
    seen.fail("compilers", "cudadent/kernel.h is neither beside this executable (../include) nor in its source tree",
              "cmake --install <build directory> --prefix <directory>, and run the installed bin/cudadent", Need::cxx);
  seen.facts.compilers = std::move(facts);
  return seen;
}

Observations examine_counters() {
  Observations seen;
  CounterFacts facts;
  const std::string paranoid = first_line_of("/proc/sys/kernel/perf_event_paranoid");
  const bool root = geteuid() == 0;
  if (!paranoid.empty()) facts.perf_event_paranoid = std::atoi(paranoid.c_str());
  if (paranoid.empty())
    seen.warn("counters", "CPU counters: this kernel has no perf events", "nothing to do: timing works without them");
  else if (!root && std::atoi(paranoid.c_str()) > 2)
    seen.warn("counters",
              fmt::format("CPU counters are locked (perf_event_paranoid is {}; at most 2 lets a user count)", paranoid),
              "sudo sysctl kernel.perf_event_paranoid=2");
  else if (const auto allowed = hardware_counters_allowed(); !allowed)
    seen.ok("counters", "CPU counters: permitted, but " + allowed.error().message);
  else
    seen.ok("counters", fmt::format("CPU counters: perf_event_paranoid {}{}", paranoid, root ? ", root" : ""));
  const std::string admin_only = value_in_file("/proc/driver/nvidia/params", "RmProfilingAdminOnly");
  if (!admin_only.empty()) facts.nvidia_profiling_admin_only = admin_only != "0";
  if (admin_only.empty())
    seen.ok("counters", "GPU counters: no NVIDIA driver, nothing to permit");
  else if (admin_only != "0" && !root)
    seen.warn(
        "counters", "GPU counters are locked to administrators (RmProfilingAdminOnly is 1)",
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-counters.conf, "
        "then reboot; or run as root");
  else
    seen.ok("counters", "GPU counters may be read");
  seen.facts.counters = facts;
  return seen;
}

Observations examine_confinement() {
  Observations seen;
  if (landlock_version() > 0)
    seen.ok("confinement", "a kernel touches its outputs alone: " + confinement_here());
  else
    seen.warn(
        "confinement",
        "this kernel of Linux has no Landlock: a kernel under test can write wherever you can; " + confinement_here(),
        "use Linux 5.13 or later with landlock in lsm= (cat /sys/kernel/security/lsm), or a container of its own");
  return seen;
}

Observations examine_clocks() {
  Observations seen;
  const std::string governor = first_line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  const std::string source = first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  ClockFacts facts{.load = load};
  if (!governor.empty()) facts.governor = governor;
  if (!source.empty()) facts.clocksource = source;
  seen.facts.clocks = std::move(facts);
  if (governor.empty())
    seen.ok("clocks", "frequency: not visible here (virtual machine); comparisons interleave for that reason");
  else if (governor == "performance")
    seen.ok("clocks", "frequency governor: performance");
  else
    seen.warn("clocks", fmt::format("frequency governor is {}: clocks move while something is timed", governor),
              "sudo cpupower frequency-set -g performance");
  if (source == "hpet" || source == "acpi_pm")
    seen.warn("clocks", fmt::format("clock source is {}: reading the time takes about a microsecond", source),
              "boot with clocksource=tsc if the machine's TSC is stable");
  else if (!source.empty())
    seen.ok("clocks", "clock source: " + source);
  if (load > 0.7 * cores)
    seen.warn("clocks", fmt::format("load {:.1f} on {} cores: other work will disturb timings", load, cores),
              "stop what else runs here, or accept more INCONCLUSIVE verdicts");
  return seen;
}

Observations examine_disk(const std::string& directory) {
  Observations seen;
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) {
    seen.facts.disk = DiskFacts{.directory = directory};
    seen.fail("disk", "cannot look at " + directory, "give a directory that exists", Need::disk);
    return seen;
  }
  const double free_gb = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) / 1e9;
  const bool writable = access(directory.c_str(), W_OK) == 0;
  seen.facts.disk = DiskFacts{.directory = directory, .free_gb = free_gb, .writable = writable};
  const std::string what = fmt::format("{:.1f} GB free in {}", free_gb, directory);
  if (!writable)
    seen.fail("disk", directory + " is not writable: builds and records go to .cudadent below it",
              "run in a directory of your own, or: chmod u+w " + directory, Need::disk);
  else if (free_gb < 0.1)
    seen.fail("disk", what + "; builds need about 0.1 GB", "free space, or move the project", Need::disk);
  else if (free_gb < 1)
    seen.warn("disk", what + "; less than 1 GB", "free space before it fails in the middle", Need::nothing);
  else
    seen.ok("disk", what, Need::disk);
  return seen;
}

}  // namespace flashmoe::workflow
