// How a launch's work is spread over its CTAs. Work is PTX instructions executed by warps; nobody can count whether
// they were of use.
//
// A CTA did work when it executed at least a tenth of what the mean CTA did and at least a hundredth of what the
// largest did. CTAs that return at once fall below the first bound as soon as any does something; those that only
// pretend (a few instructions more, beside two that compute) pull the mean down to themselves and fall below the
// second. The triangle of a causal kernel loses a twentieth of its CTAs to the first bound, and no more. What still
// passes does at least a hundredth of the largest CTA's work each; the ratio of the largest to the mean tells those: 2
// for a triangle, 80 for a thousand such CTAs around two that compute.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace flashmoe::vgpu::observe {

struct WorkSpread {
  std::uint64_t ctas = 0;  // that ran
  std::uint64_t working_ctas = 0;
  std::uint32_t working_sms = 0;  // that ran one of these
  double largest_over_mean = 0;   // instructions a CTA; 0: nothing ran
};

class WorkCount {
 public:
  void launch_begins(std::uint32_t sms);
  void cta_ended(std::uint32_t sm, std::uint64_t instructions);
  [[nodiscard]] WorkSpread spread() const;

 private:
  std::map<std::uint64_t, std::uint64_t> ctas_with_{};  // by instructions: most CTAs do one of a few amounts
  std::vector<std::uint64_t> largest_on_sm_{};
};

}  // namespace flashmoe::vgpu::observe
