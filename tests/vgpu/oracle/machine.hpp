// One CTA after another, one thread after another. A thread runs until it ends or has to wait: for the lanes that a
// warp-wide instruction names, or at a barrier. There are no warps in lock step here, so whatever the virtual GPU does
// about divergence is judged by something that has none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "vgpu/oracle/natural.hpp"
#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::oracle {

// Generic addresses of the spaces that are not global.
inline constexpr std::uint64_t shared_base = 1ull << 60, local_base = 2ull << 60, parameter_base = 3ull << 60;
inline constexpr std::uint64_t module_base = 4ull << 60;  // .global and .const variables of the module
inline constexpr std::uint64_t space_bytes = 1ull << 40;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

// Global memory: ranges at the addresses that the kernel is told.
struct GlobalMemory {
  std::map<std::uint64_t, std::vector<std::uint8_t>> ranges{};
};

struct LaunchDescription {
  std::string entry{};
  Dim3 grid{}, block{};
  std::uint64_t dynamic_shared_bytes = 0;
  std::vector<std::uint8_t> parameters{};
  std::uint64_t instruction_budget = 50'000'000;  // of threads
  // mma with floating-point results gives the sum of the magnitudes of what it adds, for the judge's error bound.
  bool mma_gives_magnitude = false;
};

struct Frame {
  const Program* program = nullptr;
  std::size_t pc = 0;
  std::unordered_map<std::string, Bits> registers{};
  std::vector<std::uint8_t> parameters{};  // its .param variables
  std::uint64_t local_start = 0;
};

struct PendingCopy {  // a cp.async that has not landed; it does at the wait for its group
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  int bytes = 0, source_bytes = 0;
  std::uint32_t group = 0;
};

struct Thread {
  Dim3 id{};
  int lane = 0, warp = 0;
  std::vector<Frame> frames{};
  std::vector<std::uint8_t> local{};
  bool carry = false;  // CC.CF
  enum class State { running, collective, barrier, exited } state = State::running;
  int barrier = 0;
  std::vector<PendingCopy> copies{};
  std::uint32_t committed_groups = 0;
  [[nodiscard]] Frame& frame() { return frames.back(); }
  [[nodiscard]] const ptx::Instruction& instruction() { return frame().program->code.at(frame().pc); }
};

struct Barrier {
  std::uint32_t arrived = 0, expected = 0;
  std::vector<std::size_t> waiting{};  // threads
  std::uint32_t popc = 0;
  bool all = true, any = false;
};

class Step;

class Machine {
 public:
  Machine(const Image& image, const LaunchDescription& launch, GlobalMemory& global)
      : image_(image), launch_(launch), global_(global), module_data_(image.module_data) {}

  // Throws std::runtime_error: a bad address, a hang, a trap, or an instruction it does not know.
  void run();

  // What instructions reach for.
  [[nodiscard]] const Image& image() const { return image_; }
  [[nodiscard]] const LaunchDescription& launch() const { return launch_; }
  [[nodiscard]] Dim3 block() const { return block_; }
  [[nodiscard]] std::vector<Thread>& threads() { return threads_; }
  // The bytes at a generic address, for this thread.
  [[nodiscard]] std::uint8_t* bytes_at(Thread& thread, std::uint64_t address, std::uint64_t count);
  [[nodiscard]] Bits load(Thread& thread, std::uint64_t address, int bytes);
  void store(Thread& thread, std::uint64_t address, int bytes, Bits value);
  void arrive(Thread& thread, int number, std::uint32_t expected, bool waits, bool predicate);
  // Lanes of the thread's warp, by lane; nullptr: no such thread.
  [[nodiscard]] std::array<Thread*, 32> warp_of(const Thread& thread);

 private:
  using Group = bool (*)(Step&);  // of operations; false: not one of them
  struct Known {
    bool is_collective = false;
    Group group = nullptr;  // nullptr: not found yet
  };
  void run_op(Step& step, Group& group);
  void run_block();
  bool run_thread(Thread& thread);
  bool run_collective(Thread& thread);
  void release(Barrier& barrier);

  const Image& image_;
  const LaunchDescription& launch_;
  GlobalMemory& global_;
  std::vector<std::uint8_t> module_data_;
  std::vector<std::uint8_t> shared_{};
  std::vector<Thread> threads_{};
  std::array<Barrier, 16> barriers_{};
  Dim3 block_{};
  std::uint64_t executed_ = 0;
  std::unordered_map<const ptx::Instruction*, Known> known_{};
};

}  // namespace flashmoe::vgpu::oracle
