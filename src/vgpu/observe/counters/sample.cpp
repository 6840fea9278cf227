#include "vgpu/observe/counters/sample.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace flashmoe::vgpu::observe {

std::optional<SampleSize> SampleSize::parse(std::string_view text) {
  const auto wanted = parse_count_or_percent(text);
  return wanted ? std::optional(SampleSize{*wanted}) : std::nullopt;
}

std::uint64_t SampleSize::of(std::uint64_t ctas) const {
  const double asked = wanted.is_percent ? std::ceil(static_cast<double>(ctas) * wanted.number / 100) : wanted.number;
  const std::uint64_t pairs = (static_cast<std::uint64_t>(asked) + 1) / 2;
  return std::min(ctas, 2 * std::max<std::uint64_t>(pairs, 1));
}

CtaSample::CtaSample(std::uint64_t ctas, std::uint64_t chosen, std::uint64_t seed) : ctas_(ctas), seed_(seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t stretches = chosen / 2;
  for (std::uint64_t i = 0; i < stretches; ++i) {
    const std::uint64_t begin = i * ctas / stretches, end = (i + 1) * ctas / stretches, size = end - begin;
    const std::uint64_t first = random() % size;
    const std::uint64_t second = (first + 1 + random() % (size - 1)) % size;
    // Of an odd number one stands for one more: the first, which is either of them equally often.
    Chosen one{.cta = begin + first, .stands_for = (size + 1) / 2};
    Chosen other{.cta = begin + second, .stands_for = size / 2};
    if (other.cta < one.cta) std::swap(one, other);
    chosen_.push_back(one);
    chosen_.push_back(other);
  }
}

CtaSample::Chosen* CtaSample::find(std::uint64_t cta) {
  if (chosen_[latest_].cta == cta) return &chosen_[latest_];
  const auto found = std::ranges::lower_bound(chosen_, cta, {}, &Chosen::cta);
  if (found == chosen_.end() || found->cta != cta) return nullptr;
  latest_ = static_cast<std::size_t>(found - chosen_.begin());
  return &*found;
}

bool CtaSample::holds(std::uint64_t cta) const {
  return std::ranges::binary_search(chosen_, cta, {}, &Chosen::cta);
}

std::uint64_t CtaSample::sum(std::uint64_t CtaCounts::*of) const {
  std::uint64_t sum = 0;
  for (const Chosen& one : chosen_) sum += one.stands_for * (one.counts.*of);
  return sum;
}

// Two of n: their variance is half the square of what they differ by, that of the stretch's sum n (n - 2) / 2 of it.
double CtaSample::standard_error(std::uint64_t CtaCounts::*of) const {
  double variance = 0;
  for (std::size_t i = 0; i + 1 < chosen_.size(); i += 2) {
    const auto size = static_cast<double>(chosen_[i].stands_for + chosen_[i + 1].stands_for);
    const double difference =
        static_cast<double>(chosen_[i].counts.*of) - static_cast<double>(chosen_[i + 1].counts.*of);
    variance += size * (size - 2) / 4 * difference * difference;
  }
  return std::sqrt(variance);
}

double CtaSample::standard_error_percent(std::uint64_t CtaCounts::*of) const {
  const auto whole = static_cast<double>(sum(of));
  return whole == 0 ? 0 : 100 * standard_error(of) / whole;
}

}  // namespace flashmoe::vgpu::observe
