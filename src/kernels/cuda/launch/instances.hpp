// The kernels there can be: axes as one number, and instances.def as a table.
#pragma once

#include <span>
#include <string>

#include "flashmoe/flashmoe.h"
#include "kernels/cuda/axes.hpp"

namespace flashmoe::cuda {

struct InstanceAxes {
  fms_dtype dtype = FMS_F16;
  int dim = dim_step;
  TileClass tile_class = TileClass::large;
  bool is_paged = false, is_modified = false;

  friend bool operator==(const InstanceAxes&, const InstanceAxes&) = default;

  [[nodiscard]] Tile tile() const { return tile_of(tile_class, dim); }
  [[nodiscard]] std::string name() const;  // forward_f16_d64_large_paged
};

// Every instance has a number of its own: plans carry it, and kernels are kept by it.
inline constexpr int instance_codes = 2 * (max_dim / dim_step) * tile_classes * 4;
[[nodiscard]] int code_of(const InstanceAxes& axes);
[[nodiscard]] InstanceAxes axes_of(int code);  // 0 <= code < instance_codes

// instances.def
[[nodiscard]] std::span<const InstanceAxes> listed_instances();
[[nodiscard]] bool is_listed(const InstanceAxes& axes);

}  // namespace flashmoe::cuda
