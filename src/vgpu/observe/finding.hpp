// One thing the checks found, as its reader wants it: what and where, who else took part, what to do about it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "vgpu/exec/state.hpp"
#include "vgpu/observe/buffer_place.hpp"

namespace flashmoe::vgpu::observe {

enum class Check : std::uint8_t { memcheck, initcheck, racecheck, synccheck };
[[nodiscard]] std::string_view name_of(Check check);

// What a finding is about; the earlier explains the later. A read beyond a buffer brings values in that nobody set, a
// barrier that is missing shows between the lanes of a warp as well, and whoever waits for lost work waits for ever.
enum class Cause : std::uint8_t { access, order, lanes, value, standstill };
[[nodiscard]] std::string_view name_of(Cause cause);

// One party: an instruction, and the thread that ran it.
struct Party {
  std::string what{};  // "write of 4 bytes", "cp.async of 16 bytes"
  std::string source_file{};
  int source_line = 0;    // 0: the image has no line information
  std::string inlined{};  // how it came to stand there, empty when it was not inlined
  int ptx_line = 0;
  std::string instruction{};
  exec::Dim3 block{0, 0, 0}, thread{0, 0, 0};
  std::uint32_t pc = 0;

  [[nodiscard]] std::string place() const;  // "softmax.cu:41 (PTX line 120: st.shared.f32 ...)"
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

struct Finding {
  Check check = Check::memcheck;
  std::string kernel{};   // its symbol
  std::string message{};  // "write of 4 bytes outside any allocation"
  Party at{};
  std::optional<std::uint64_t> address{};
  std::string space{};  // of the address: "global", "shared", "local"
  bool is_misaligned = false;
  Cause cause = Cause::order;
  std::optional<BufferPlace> buffer{};  // of a global address
  std::optional<Party> other{};
  std::string advice{};     // one sentence
  std::uint64_t times = 1;  // this finding was met so often, over all threads

  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

// The thread of a lane, from its number in the block.
[[nodiscard]] exec::Dim3 thread_of(const exec::Dim3& block, std::uint32_t number);
[[nodiscard]] exec::Dim3 block_of(const exec::Dim3& grid, std::uint64_t linear);
[[nodiscard]] Party party(const ir::Kernel& kernel, std::uint32_t pc, const exec::Dim3& block,
                          const exec::Dim3& thread);

// Keeps each finding once per (check, place, other place) and counts repetitions. A place is a source line and the way
// it was inlined, so that an unrolled loop is one place; an instruction where the image has no lines. A key is asked
// for before the text is made, so that a finding in a hot loop costs a lookup.
class FindingLog {
 public:
  explicit FindingLog(std::size_t most = 1000) : most_(most) {}

  // True: new, so describe it and add it. False: counted.
  [[nodiscard]] bool is_new(Check check, std::uint32_t pc, std::uint32_t other_pc, std::uint32_t detail = 0,
                            std::uint64_t times = 1);
  // Called before a finding is asked for: a check that lags behind tells its own first.
  void set_catch_up(std::function<void()> catch_up) { catch_up_ = std::move(catch_up); }
  void add(Finding finding);  // after is_new said so
  // Program counters mean instructions of this kernel from now on; nullptr: of none.
  void next_kernel(const ir::Kernel* kernel);

  [[nodiscard]] std::span<const Finding> findings() const { return findings_; }  // as they were met
  [[nodiscard]] std::vector<const Finding*> by_cause() const;
  // The buffers of global addresses.
  void locate(const std::function<std::optional<BufferPlace>(std::uint64_t address)>& place_of);
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] nlohmann::ordered_json to_json() const;
  void clear();

 private:
  using Key = std::tuple<Check, std::uint32_t, std::uint32_t, std::uint32_t>;
  using Place = std::tuple<std::string, int, std::string>;

  // The first instruction asked for that stands at the same place.
  [[nodiscard]] std::uint32_t first_at_place(std::uint32_t pc);

  std::size_t most_;
  std::function<void()> catch_up_{};
  std::vector<Finding> findings_{};
  std::map<Key, std::size_t> known_{};  // -> index in findings_, or npos when dropped
  const ir::Kernel* kernel_ = nullptr;
  std::map<Place, std::uint32_t> first_at_{};
  std::unordered_map<std::uint32_t, std::uint32_t> place_of_{};  // by pc
  std::uint64_t dropped_ = 0;
};

}  // namespace flashmoe::vgpu::observe
