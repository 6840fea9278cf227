// The observer of an observed run: hands every event to the checks and counters that are switched on.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/counters/counters.hpp"
#include "vgpu/observe/finding.hpp"
#include "vgpu/observe/sanitizer/global_shadow.hpp"
#include "vgpu/observe/sanitizer/initcheck.hpp"
#include "vgpu/observe/sanitizer/memcheck.hpp"
#include "vgpu/observe/sanitizer/race_queue.hpp"
#include "vgpu/observe/sanitizer/racecheck.hpp"
#include "vgpu/observe/sanitizer/synccheck.hpp"

namespace flashmoe::vgpu::observe {

struct WatchOptions {
  bool memcheck = true, initcheck = true, racecheck = true, synccheck = true;
  bool counters = true;
  bool paths = false;                  // counted with them: which way warps went
  std::optional<SampleSize> sample{};  // counters of some CTAs, where the launch allows it; nothing else may be on
  bool cold_caches = true;             // false: L2 keeps what earlier launches of this watch left
  bool races_by_lane = false;          // racecheck takes no short cuts: for tests that compare with them
  bool leftovers = false;              // what earlier calls left counts as never set; said in findings
  GlobalShadow* global = nullptr;      // nullptr: all of global memory counts as initialised
  MachineShape machine = l4_shape();
  std::size_t most_findings = 1000;
  std::uint64_t most_strays = 1 << 20;  // accesses of a launch that memcheck did not let through; more end it
};

// One watch sees any number of launches, one after another. Findings add up; counts are those of the last launch.
class Watch final : public exec::Observer {
 public:
  explicit Watch(WatchOptions options = {});
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() override;

  [[nodiscard]] FindingLog& log() { return log_; }
  [[nodiscard]] const LaunchCounts& counts() const { return counters_.counts(); }

  void grid_begins(exec::Grid& grid) override;
  void grid_ends(exec::Grid& grid, std::uint64_t warp_instructions) override;
  void cta_begins(exec::Cta& cta) override;
  void cta_ends(exec::Cta& cta) override;
  [[nodiscard]] const std::vector<ir::Inst>* unwatched_code() const override {
    return counts().sample ? &unwatched_code_ : nullptr;
  }
  [[nodiscard]] bool watches(const exec::Cta& cta) const override { return cta.shadow != nullptr; }
  void before(exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc) override;
  std::uint32_t access(exec::Warp& warp, const ir::Inst& inst, const exec::Access& access) override;
  void branch(exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, std::uint32_t taken,
              std::uint32_t not_taken) override;
  void frame_begins(exec::Warp& warp, exec::Frame& frame) override;
  void barrier_arrives(exec::Warp& warp, const ir::Inst& inst, std::uint32_t number, std::uint32_t lanes,
                       bool waits) override;
  void barrier_completes(exec::Cta& cta, std::uint32_t number) override;
  void barrier_passes(exec::Warp& warp, std::uint32_t number) override;
  void warp_syncs(exec::Warp& warp, std::uint32_t lanes, std::uint32_t pc) override;
  void fence(exec::Warp& warp, exec::Scope scope, exec::FenceKind kind) override;
  void barrier_object_used(exec::Warp& warp, const exec::BarrierObjectUse& use) override;
  void copies_issued(exec::Warp& warp, std::span<const exec::AsyncCopy> copies) override;
  void copies_committed(exec::Warp& warp, std::uint32_t lanes) override;
  void copies_waited(exec::Warp& warp, std::uint32_t lanes, std::uint32_t pending) override;
  void sync_problem(exec::Warp& warp, exec::SyncProblem problem, std::uint32_t pc, std::string_view detail) override;

 private:
  struct CtaShadow;
  struct WarpShadow;
  struct Note {  // what every event asks of an instruction
    bool is_warp_barrier = false, is_memory_barrier_object = false, is_branch = false;
    bool is_non_coherent = false;         // ld.global.nc
    bool is_barrier_object_init = false;  // mbarrier.init
  };
  [[nodiscard]] static WarpShadow& shadow_of(const exec::Warp& warp) { return *static_cast<WarpShadow*>(warp.shadow); }
  [[nodiscard]] static CtaShadow& shadow_of(const exec::Cta& cta) { return *static_cast<CtaShadow*>(cta.shadow); }
  void report_fault(const exec::Grid& grid);
  void report_gone_past(const exec::Cta& cta, std::uint32_t number);

  WatchOptions options_;
  FindingLog log_;
  Memcheck memcheck_;
  Initcheck initcheck_;
  Racecheck racecheck_;
  RaceQueue races_;
  Synccheck synccheck_;
  Counters counters_;
  std::vector<Note> notes_{};                                         // by pc
  std::vector<ir::Inst> unwatched_code_{};                            // of a launch whose CTAs are sampled
  std::unordered_map<const void*, std::unique_ptr<CtaShadow>> ctas_;  // no initialiser: the type is incomplete here
};

}  // namespace flashmoe::vgpu::observe
