// Values that nothing defined. Undefined bits travel with the data and are reported only where they matter: a branch,
// an address, a store to global memory. Loading or copying them is no mistake by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/finding.hpp"
#include "vgpu/observe/sanitizer/global_shadow.hpp"
#include "vgpu/observe/sanitizer/poison_rules.hpp"
#include "vgpu/observe/sanitizer/register_poison.hpp"

namespace flashmoe::vgpu::observe {

// Of one warp.
struct WarpPoison {
  std::unordered_map<const exec::Frame*, std::unique_ptr<RegisterPoison>> frames{};
  const exec::Frame* frame = nullptr;  // whose registers `registers` are
  RegisterPoison* registers = nullptr;
  std::vector<std::uint8_t> local{};  // [lane][stride]: undefined bits of each byte
  std::size_t local_stride = 0;
};

// Of one CTA: undefined bits of each byte of shared memory.
struct CtaPoison {
  explicit CtaPoison(std::size_t bytes) : shared(bytes, 0xff) {}
  std::vector<std::uint8_t> shared;
};

class Initcheck {
 public:
  Initcheck(FindingLog& log, GlobalShadow* global, bool leftovers = false)
      : log_(log), global_(global), leftovers_(leftovers) {}

  void grid_begins(const exec::Grid& grid);
  void frame_begins(const exec::Frame& frame, WarpPoison& warp);
  // Before the instruction runs: its sources are still there.
  void instruction(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, WarpPoison& of_warp) {
    RegisterPoison& poison = registers(warp, of_warp);
    if (!poison.is_settled(pc)) meet(warp, inst, pc, poison);
  }
  void access(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, WarpPoison& poison,
              CtaPoison& cta);

 private:
  enum Sink : std::uint32_t { branch, address, global_store, global_atomic, atomic_on_undefined, barrier_object };
  struct Step {  // what meet() needs of a pc, close together
    std::uint32_t first_read = 0, reads = 0, first_write = 0, writes = 0;
    std::uint32_t first_read_predicate = 0, read_predicates = 0, first_written_predicate = 0, written_predicates = 0;
    ir::PoisonRule rule = ir::PoisonRule::none;
    bool is_branch = false;        // its guard decides where the warp goes
    bool uses_whole_warp = false;  // lanes read other lanes' registers
    bool is_opaque = false;        // works on a memory barrier object
    bool is_shuffle = false;       // may take a value from a lane that does not take part
  };

  [[nodiscard]] static RegisterPoison& registers(const exec::Warp& warp, WarpPoison& poison) {
    return poison.frame == warp.frame && poison.registers != nullptr ? *poison.registers : find_registers(warp, poison);
  }
  [[nodiscard]] static RegisterPoison& find_registers(const exec::Warp& warp, WarpPoison& poison);
  void meet(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, RegisterPoison& poison);
  // `absent`: lanes whose value comes from one that does not take part.
  void propagate(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, RegisterPoison& poison,
                 std::uint32_t dirty, std::uint32_t absent);
  void check_address(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, RegisterPoison& poison);
  void load(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
            WarpPoison& of_warp, CtaPoison& cta);
  void store(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
             WarpPoison& of_warp, CtaPoison& cta);
  void atomic(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
              CtaPoison& cta);
  void matrix_rows(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RegisterPoison& poison,
                   CtaPoison& cta);
  void use_barrier_object(const exec::Warp& warp, const exec::Access& access, WarpPoison& of_warp, CtaPoison& cta);
  void land(const exec::Access& access, CtaPoison& cta);
  // Undefined bits of the bytes a lane touches; nullptr: all defined.
  [[nodiscard]] std::uint8_t* memory(const exec::Access& access, int lane, const exec::Warp& warp, WarpPoison& poison,
                                     CtaPoison& cta);
  void report(const exec::Warp& warp, std::uint32_t pc, int lane, Sink sink, std::uint32_t origin,
              const std::uint64_t* at, ir::Space space);

  FindingLog& log_;
  GlobalShadow* global_;
  bool leftovers_;
  const exec::Grid* grid_ = nullptr;
  const ir::Kernel* kernel_ = nullptr;
  std::vector<Step> steps_{};
  std::vector<std::uint32_t> slots_{};  // of all steps, one list after another
};

}  // namespace flashmoe::vgpu::observe
