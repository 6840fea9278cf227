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
  int value_dim = 0;  // 0: values are as long as keys; else the problem's may be shorter or longer

  friend bool operator==(const InstanceAxes&, const InstanceAxes&) = default;

  [[nodiscard]] int values() const { return value_dim != 0 ? value_dim : dim; }
  [[nodiscard]] Tile tile() const { return tile_of(tile_class, longest(dim, values()), is_paged, is_modified); }
  [[nodiscard]] int shared_bytes() const { return cuda::shared_bytes(tile(), dim, values()); }
  // Of the states of all rows of a tile after a part of the keys.
  [[nodiscard]] int tile_state_floats() const { return tile().rows() / 16 * state_floats(values()); }
  [[nodiscard]] std::string name() const;  // forward_f16_d64_large_paged
};

// Every instance has a number of its own: plans carry it, and kernels are kept by it.
inline constexpr int value_codes = max_dim / dim_step + 1;
inline constexpr int instance_codes = value_codes * 2 * (max_dim / dim_step) * tile_classes * 4;
[[nodiscard]] int code_of(const InstanceAxes& axes);
[[nodiscard]] InstanceAxes axes_of(int code);  // 0 <= code < instance_codes

// instances.def
[[nodiscard]] std::span<const InstanceAxes> listed_instances();
[[nodiscard]] bool is_listed(const InstanceAxes& axes);

}  // namespace flashmoe::cuda
