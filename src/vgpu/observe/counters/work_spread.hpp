// How a launch's work is spread over its CTAs. Work is PTX instructions executed by warps; nobody can count whether
// they were of use, but a CTA that writes nothing to global memory was of none: there is no other way out of it.
//
// So a CTA did work when it wrote to global memory, executed at least a tenth of what the mean CTA that wrote did, and
// a twentieth of what the largest did. CTAs that return at once write nothing, however little the others do. Those that
// pretend (a store into a corner, beside two CTAs that compute) pull the mean down to themselves, and fall below the
// second bound. The triangle of a causal kernel loses a twentieth of its CTAs, and no more.
// Whoever passes does a twentieth of the largest CTA's instructions; the largest over the mean tells what that is
// worth: 2 for a triangle, 20 for a thousand such CTAs around two that compute.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace flashmoe::vgpu::observe {

struct WorkSpread {
  std::uint64_t ctas = 0;  // that ran
  std::uint64_t working_ctas = 0;
  std::uint32_t working_sms = 0;  // that ran one of these
  double largest_over_mean = 0;   // instructions a CTA, of all that ran; 0: none
  // Instructions on the SM with most of them, were CTAs dealt out in turn: the order in which they really end depends
  // on the schedule, and two runs of a kernel are to give one number.
  std::uint64_t busiest_sm = 0;
};

class WorkCount {
 public:
  void launch_begins(std::uint32_t sms);
  // `times`: so many CTAs did this; where that is not 1, nobody knows which SM the others were on.
  void cta_ended(std::uint64_t cta, std::uint32_t sm, std::uint64_t instructions, bool wrote, std::uint64_t times = 1);
  [[nodiscard]] WorkSpread spread() const;

 private:
  std::uint64_t ctas_ = 0, largest_ = 0;
  double total_ = 0;                                  // instructions
  std::map<std::uint64_t, std::uint64_t> writers_{};  // CTAs by instructions: most do one of a few amounts
  std::vector<std::uint64_t> largest_writer_on_sm_{}, dealt_to_sm_{};
};

}  // namespace flashmoe::vgpu::observe
