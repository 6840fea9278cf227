#include "predict/larger_grid.hpp"

#include <fmt/format.h>

#include <vector>

#include "devices/device.hpp"

namespace flashmoe::predict {
namespace {

constexpr std::int64_t most_ctas = std::int64_t{1} << 24;

std::string text_of(const Grid& grid) {
  return fmt::format("{},{},{}", grid[0], grid[1], grid[2]);
}

}  // namespace

std::int64_t ctas_of(const Grid& grid) {
  return grid[0] * grid[1] * grid[2];
}

Result<PtxRun> with_grid(const PtxRun& run, const Grid& from, const Grid& to) {
  for (std::size_t axis = 0; axis < to.size(); ++axis)
    if (from[axis] < 1 || to[axis] < 1 || to[axis] > most_launch_extents.grid[axis] || to[axis] % from[axis] != 0)
      return Diagnostic{.message = fmt::format("a grid of {} is no multiple of the {} that ran {}", text_of(to),
                                               text_of(from), run.kernel),
                        .fix = "name a grid whose axes are multiples of those of the run"};
  if (to[0] > most_ctas / to[1] / to[2])
    return Diagnostic{.message = fmt::format("a grid of {} has more than {} CTAs", text_of(to), most_ctas),
                      .fix = "name a smaller grid: many waves of it take as long in proportion"};
  if (static_cast<std::int64_t>(run.totals.size()) != ctas_of(from))
    return Diagnostic{.message = fmt::format("the run of {} has counts of {} CTAs, and a grid of {}", run.kernel,
                                             run.totals.size(), text_of(from))};
  PtxRun larger = run;
  larger.totals.clear();
  larger.totals.reserve(static_cast<std::size_t>(ctas_of(to)));
  for (std::int64_t z = 0; z < to[2]; ++z)
    for (std::int64_t y = 0; y < to[1]; ++y)
      for (std::int64_t x = 0; x < to[0]; ++x)
        larger.totals.push_back(
            run.totals[static_cast<std::size_t>((z % from[2] * from[1] + y % from[1]) * from[0] + x % from[0])]);
  for (PtxCta& cta : larger.ctas) {
    const auto place = static_cast<std::int64_t>(cta.place);
    const std::int64_t x = place % from[0], y = place / from[0] % from[1], z = place / from[0] / from[1];
    cta.place = static_cast<std::uint64_t>((z * to[1] + y) * to[0] + x);
  }
  return larger;
}

}  // namespace flashmoe::predict
