#include "vgpu/driver/watch.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/whole_file.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/predicted_clock.hpp"
#include "vgpu/ir/readable_name.hpp"
#include "vgpu/observe/counters/report.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::driver {
namespace {

constexpr double bytes_per_sector = 32;

// Everything that outlives a launch. Made at the first use, after cuInit.
class Observation {
 public:
  static Observation* get() {
    const auto made = machine();
    if (!made || !(*made)->watching.notices()) return nullptr;
    static auto* const one = new Observation(**made);
    return one;
  }

  [[nodiscard]] observe::GlobalShadow* shadow() { return shadow_.get(); }

  WatchedRun run(exec::Launch& launch, Function& function) {
    if (machine_.watching.observed()) launch.observer = &watch_;
    const auto& sample = machine_.watching.sample;
    watch_.log().clear();
    WatchedRun result;
    result.outcome = exec::run(launch, *machine_.memory);
    const observe::LaunchCounts& counts = watch_.counts();
    if (machine_.watching.counts() && !sample) {
      const auto sectors = counts.traffic.dram_sectors_read + counts.traffic.dram_sectors_written;
      result.dram_bytes = static_cast<double>(sectors) * bytes_per_sector;
    }
    watch_.log().locate(
        [&](std::uint64_t address) { return observe::buffer_place(launch, *machine_.memory, address); });
    for (const observe::Finding* finding : watch_.log().by_cause()) log_line(finding->to_text());
    for (const observe::Finding& finding : watch_.log().findings()) {
      if (finding.check != observe::Check::memcheck) continue;
      if (!result.has_memory_finding)
        result.is_misaligned = finding.is_misaligned;  // the first one ends a device's run
      result.has_memory_finding = true;
    }
    if (machine_.watching.counts() || machine_.watching.tells()) {
      nlohmann::ordered_json report =
          machine_.watching.counts() ? counted(function) : uncounted(launch, result.outcome);
      report["launch"] = ++launches_;
      report["seed"] = launch.schedule.seed;
      report["schedule"] = launch.schedule.parts_warps ? "adversarial" : "natural";
      report.update(watch_.log().to_json());
      if (result.outcome.fault.kind != exec::Fault::Kind::none) report["fault"] = result.outcome.fault.message;
      write(report);
      if (machine_.watching.predicted_clock) result.predicted_ns = predicted_ns(report, function);
    }
    return result;
  }

  // Of copies to the host from this buffer.
  [[nodiscard]] bool is_first_of(const std::string& buffer) { return told_.insert(buffer).second; }

  // One object a line, appended: a program that dies leaves what it did, and one that forks mixes nothing.
  void write(const nlohmann::ordered_json& line) const {
    if (machine_.watching.report.empty()) return;
    std::ofstream(machine_.watching.report, std::ios::app) << line.dump() + '\n';
  }

 private:
  explicit Observation(const Machine& machine)
      : machine_(machine), shape_(observe::shape_of(machine.gpu, machine.architecture)), watch_(options()) {}

  observe::WatchOptions options() {
    const Watching& asked = machine_.watching;
    if (asked.initcheck) {
      auto made = observe::GlobalShadow::create(*machine_.memory);
      if (made)
        shadow_ = std::move(*made);
      else
        log_line("initcheck of global memory is off: " + made.error().to_string());
    }
    return {.memcheck = asked.memcheck,
            .initcheck = asked.initcheck,
            .racecheck = asked.racecheck,
            .synccheck = asked.synccheck,
            .counters = asked.counts(),
            .paths = asked.paths || asked.predicted_clock,
            .sample = asked.sample,
            .leftovers = asked.leftovers,
            .global = shadow_.get(),
            .machine = shape_};
  }

  [[nodiscard]] nlohmann::ordered_json counted(Function& function) const {
    const observe::Report all = observe::make_report(*function.kernel, watch_.counts(), shape_, facts(function));
    auto report = all.to_json();
    report["summary"] = observe::summary(all);
    report["annotated_sources"] = annotated_sources(all);
    return report;
  }

  // What every run knows.
  [[nodiscard]] nlohmann::ordered_json uncounted(const exec::Launch& launch, const exec::Outcome& outcome) const {
    const auto axes = [](const exec::Dim3& size) { return nlohmann::ordered_json{size.x, size.y, size.z}; };
    return {{"kernel", launch.kernel->name},
            {"name", ir::readable_name(launch.kernel->name)},
            {"device", shape_.name},
            {"grid", axes(launch.grid)},
            {"block", axes(launch.block)},
            {"metrics", nlohmann::ordered_json::array({{{"name", "vgpu__ptx_inst_executed.sum"},
                                                        {"value", outcome.warp_instructions},
                                                        {"unit", "inst"},
                                                        {"trust", "exact"}}})}};
  }

  static observe::ImageFacts facts(Function& function) {
    const bool had_cubin = function.module->cubin.has_value() && !function.module->asked_ptxas;
    observe::ImageFacts known;
    if (const CubinKernel* const kernel = compiled(function)) {
      known.registers_per_thread = static_cast<std::uint32_t>(kernel->registers);
      known.barriers = static_cast<std::uint32_t>(kernel->barriers);
      known.spill_store_bytes = static_cast<std::uint32_t>(kernel->spill_store_bytes);
      known.spill_load_bytes = static_cast<std::uint32_t>(kernel->spill_load_bytes);
      known.source = had_cubin ? "cubin" : "ptxas";
    }
    return known;
  }

  // Of the files that are still where the compiler saw them and that belong to the kernel: headers of the toolkit,
  // which every kernel executes a few lines of, would bury it.
  static nlohmann::ordered_json annotated_sources(const observe::Report& report) {
    std::uint64_t total = 0;
    std::map<std::string, std::uint64_t> by_file;
    for (const observe::LineCounts& line : report.lines) {
      by_file[line.file] += line.ptx_instructions;
      total += line.ptx_instructions;
    }
    constexpr std::uint64_t least_share = 20;  // a twentieth of all instructions
    auto list = nlohmann::ordered_json::array();
    for (const auto& [file, instructions] : by_file) {
      if (file.empty() || instructions * least_share < total) continue;
      if (const auto text = whole_file(file)) list.push_back(observe::annotated_source(report, file, *text));
    }
    return list;
  }

  const Machine& machine_;
  observe::MachineShape shape_;
  std::unique_ptr<observe::GlobalShadow> shadow_{};
  observe::Watch watch_;
  std::uint64_t launches_ = 0;
  std::set<std::string> told_{};
};

nlohmann::ordered_json finding_without_place(const char* cause, const std::string& message, const std::string& advice,
                                             const char* check = "memcheck") {
  return {{"findings", nlohmann::ordered_json::array(
                           {{{"check", check}, {"cause", cause}, {"message", message}, {"advice", advice}}})}};
}

observe::GlobalShadow* shadow() {
  Observation* const one = Observation::get();
  return one == nullptr ? nullptr : one->shadow();
}

}  // namespace

void host_allocated(std::uint64_t address, std::uint64_t bytes) {
  if (auto* const global = shadow()) global->mark_uninitialised(address, bytes);
}

void host_wrote(std::uint64_t address, std::uint64_t bytes) {
  if (auto* const global = shadow()) global->mark_initialised(address, bytes);
}

void copied(const memory::DeviceMemory& memory, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  auto* const global = shadow();
  if (global == nullptr) return;
  if (memory.is_mapped(from, bytes))
    global->copy(to, from, bytes);
  else
    global->mark_initialised(to, bytes);
}

namespace {

// Bytes that nothing has written, told once an allocation. `done`: "copied to the host".
void report_unset(const memory::DeviceMemory& memory, std::uint64_t from, std::uint64_t bytes, const std::string& done,
                  const char* advice) {
  auto* const global = shadow();
  if (global == nullptr || !memory.is_mapped(from, bytes)) return;
  const observe::GlobalShadow::Unset unset = global->unset(from, bytes);
  if (unset.bytes == 0 || unset.is_padding) return;
  const auto buffer = memory.find(from);
  if (!buffer || !Observation::get()->is_first_of(buffer->what)) return;
  const std::string message = fmt::format("{} of {} bytes {} from {} were never written; the first is byte {} of it",
                                          unset.bytes, bytes, done, buffer->what, from - buffer->address + unset.first);
  log_line(fmt::format("initcheck: {}\n  {}", message, advice));
  Observation::get()->write(finding_without_place("value", message, advice, "initcheck"));
}

}  // namespace

void copied_to_host(const memory::DeviceMemory& memory, std::uint64_t from, std::uint64_t bytes) {
  report_unset(
      memory, from, bytes, "copied to the host",
      "check that the kernel writes every element; clear the buffer, or copy less, where the rest is not used");
}

void read_by_host_work(const memory::DeviceMemory& memory, const char* name, const char* what, std::uint64_t from,
                       std::uint64_t bytes) {
  report_unset(memory, from, bytes, fmt::format("that {} reads as {}", name, what),
               "write the whole operand before the call; check its sizes, its leading dimension and its stride");
}

void report_host_work_outside(const std::string& message) {
  constexpr const char* advice = "check the operand's pointer, its sizes, its leading dimension and its stride";
  log_line(fmt::format("memcheck: {}\n  {}", message, advice));
  if (Observation* const one = Observation::get()) one->write(finding_without_place("access", message, advice));
}

void report_refused(const std::string& why) {
  log_line(why);
  Observation* const one = Observation::get();
  if (one == nullptr) return;
  one->write({{"refused", why}, {"findings", nlohmann::ordered_json::array()}});  // every line has findings
}

void report_leaks(std::size_t allocations, std::uint64_t bytes) {
  Observation* const one = Observation::get();
  if (one == nullptr) return;
  const std::string message =
      fmt::format("{} allocation{}, {} bytes, never freed", allocations, allocations == 1 ? "" : "s", bytes);
  log_line("memcheck: " + message);
  one->write(finding_without_place("leak", message, "free what was allocated before the context ends"));
}

void report_heap(std::uint64_t bytes) {
  Observation* const one = Observation::get();
  static bool is_told = false;
  if (one == nullptr || is_told) return;
  is_told = true;
  log_line(fmt::format("memcheck: {} bytes of malloc were not freed", bytes));
  one->write(finding_without_place("access",
                                   "memory that device code got from malloc was not freed by the end of the call",
                                   "free() in the kernel what it allocated: the heap is never emptied"));
}

WatchedRun run_watched(exec::Launch launch, Function& function) {
  return Observation::get()->run(launch, function);
}

}  // namespace flashmoe::vgpu::driver
