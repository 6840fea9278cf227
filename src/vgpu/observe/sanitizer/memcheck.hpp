// Every access lies inside one live allocation, is aligned to its own size, and does not write constants. A lane that
// fails is reported and left out: it reads zero and writes nothing, so that one bad index does not hide the next.
// Arrays in shared memory stand apart in a watched run, so that an access behind the end of one is no access to the
// next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/finding.hpp"

namespace flashmoe::vgpu::observe {

class Memcheck {
 public:
  Memcheck(FindingLog& log, std::uint64_t most_strays) : log_(log), most_strays_(most_strays) {}

  void grid_begins(const exec::Grid& grid);
  // The lanes whose access may be carried out. Too many strays in one launch end it: loops that count on what they
  // could not read may go round for hours, and what was found is told when the launch is over.
  [[nodiscard]] std::uint32_t allowed(exec::Warp& warp, const exec::Access& access);
  [[nodiscard]] bool has_ended_launch() const { return strays_ > most_strays_; }

 private:
  struct Range {  // of the allocation the instruction hit last
    std::uint64_t begin = 0, end = 0;
    bool is_constant = false;
  };
  [[nodiscard]] std::uint32_t allowed_in_space(const exec::Warp& warp, const exec::Access& access);
  [[nodiscard]] std::uint32_t allowed_global(const exec::Warp& warp, const exec::Access& access);
  [[nodiscard]] std::uint32_t allowed_arrays(const exec::Warp& warp, const exec::Access& access);
  [[nodiscard]] std::uint32_t allowed_window(const exec::Warp& warp, const exec::Access& access, std::uint64_t size);
  void report(const exec::Warp& warp, const exec::Access& access, int lane, std::uint32_t reason, std::string message,
              std::string advice);

  FindingLog& log_;
  const exec::Grid* grid_ = nullptr;
  std::uint64_t most_strays_;
  std::uint64_t strays_ = 0;  // accesses of lanes that were not carried out
  std::uint64_t shared_bytes_ = 0;
  std::vector<ir::SharedArray> arrays_{};  // in shared memory, the dynamic part as the last one; none: no red zones
  std::vector<Range> last_{};              // by pc, in global memory
  std::vector<Range> last_array_{};        // by pc, in shared memory: a generic access may go to both
};

// Allocations that the program never freed, one finding each.
void report_leaks(const memory::DeviceMemory& memory, FindingLog& log);

}  // namespace flashmoe::vgpu::observe
