// Bytes as a virtual GPU's report of a launch, and as a small kernel with what its warp did: the report is refused or
// read; the kernel has a path that stays inside it, or none that fits.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>

#include "predict/walk.hpp"
#include "workflow/predict/ptx_run_json.hpp"

namespace {

using namespace flashmoe;

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  std::uint32_t below(std::uint32_t limit) { return at_ == end_ ? 0 : *at_++ % limit; }
  [[nodiscard]] bool is_empty() const { return at_ == end_; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

void walk_random_kernel(Bytes bytes) {
  constexpr const char* opcodes[] = {"FFMA",          "LDS.64", "BRA",   "EXIT", "CALL.REL.NOINC",
                                     "RET.REL.NODEC", "BSSY",   "BSYNC", "BRX",  "BRA.DIV"};
  constexpr const char* guards[] = {"", "", "@P0", "@!P1"};
  constexpr std::uint32_t lines = 8;
  predict::SassKernel kernel{.name = "k", .architecture = "sm_89", .instructions = {}};
  const std::uint32_t count = 1 + bytes.below(40);
  for (std::uint32_t i = 0; i < count; ++i) {
    predict::SassInstruction& one = kernel.instructions.emplace_back();
    one.opcode = opcodes[bytes.below(std::size(opcodes))];
    one.guard = guards[bytes.below(std::size(guards))];
    one.ptx_line = bytes.below(lines);
    one.operands.emplace_back(bytes.below(2) == 0 ? "B0" : "B1");
    if (bytes.below(4) != 0) one.target = bytes.below(count);
  }
  predict::PtxRun run{.kernel = "k", .lines = {}, .ctas = {{.place = 0, .warps = {{}}}}, .totals = {}};
  predict::PtxWarp& warp = run.ctas[0].warps[0];
  while (!bytes.is_empty()) {
    const std::uint32_t line = bytes.below(lines);
    warp.executed[line] = bytes.below(30);
    warp.branches[line].push_back({static_cast<predict::Outcome>(bytes.below(3)), 1 + bytes.below(5)});
  }
  const auto paths = predict::sass_paths(kernel, run);
  if (!paths) {
    if (paths.error().message.empty()) std::abort();
    return;
  }
  for (const std::uint32_t at : paths->ctas.at(0).warps.at(0).instructions)
    if (at >= count) std::abort();
  if (!(paths->unmatched_weight >= 0)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto run = workflow::ptx_run_from(std::string(reinterpret_cast<const char*>(data), size));
  if (!run && run.error().message.empty()) std::abort();
  walk_random_kernel({data, size});
  return 0;
}
