// Observed launches: the checks and counters of observe/, what they found, and the report file. Nothing here does
// anything in a fast run.
#pragma once

#include <cstdint>
#include <optional>

#include "vgpu/driver/module.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::driver {

// What the host did to device memory, for initcheck.
void host_allocated(std::uint64_t address, std::uint64_t bytes);
void host_wrote(std::uint64_t address, std::uint64_t bytes);
void copied(const memory::DeviceMemory& memory, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
// The program is about to read what it copied: bytes that nothing has written are a finding, once an allocation.
void copied_to_host(const memory::DeviceMemory& memory, std::uint64_t from, std::uint64_t bytes);
// Work of a library that computes on the CPU (host_work.hpp) reads its operand `what`: the same, once an allocation.
void read_by_host_work(const memory::DeviceMemory& memory, const char* name, const char* what, std::uint64_t from,
                       std::uint64_t bytes);
// Its operand lies outside of memory that is allocated: a finding of memcheck, and in every run a line of the log.
void report_host_work_outside(const std::string& message);
// A launch, or a kernel, that was refused: nothing was checked of it, which the report has to say.
void report_refused(const std::string& why);
void report_leaks(std::size_t allocations, std::uint64_t bytes);
void report_heap(std::uint64_t bytes);  // that kernels got from malloc and kept

struct WatchedRun {
  exec::Outcome outcome{};
  std::optional<double> dram_bytes{};    // by the model of caches, where counters were asked for
  std::optional<double> predicted_ns{};  // where the clock is to be a prediction, and there is one
  bool has_memory_finding = false;       // the device would have stopped the launch
  bool is_misaligned = false;            // and for that
};

// Runs the launch with every check and counter asked for; findings go to stderr and, with the counters, into the
// report. Without either it is a fast run of which the report has a line.
[[nodiscard]] WatchedRun run_watched(exec::Launch launch, Function& function);

}  // namespace flashmoe::vgpu::driver
