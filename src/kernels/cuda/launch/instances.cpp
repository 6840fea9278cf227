#include "kernels/cuda/launch/instances.hpp"

#include <algorithm>

namespace flashmoe::cuda {
namespace {

constexpr fms_dtype Half = FMS_F16, BFloat16 = FMS_BF16;

constexpr InstanceAxes listed[] = {
#define FMS_VALUES_INSTANCE(element, dim, value_dim, tile_class, paged, modified) \
  {element, dim, TileClass::tile_class, (paged) != 0, (modified) != 0, value_dim},
#define FMS_INSTANCE(element, dim, tile_class, paged, modified) \
  FMS_VALUES_INSTANCE(element, dim, 0, tile_class, paged, modified)
#include "kernels/cuda/instances.def"
#undef FMS_INSTANCE
#undef FMS_VALUES_INSTANCE
};
static_assert(std::size(listed) <= 96);

}  // namespace

std::string InstanceAxes::name() const {
  std::string name = dtype == FMS_F16 ? "forward_f16_d" : "forward_bf16_d";
  name += std::to_string(dim);
  if (value_dim != 0) name += "_v" + std::to_string(value_dim);
  name += '_';
  name += tile_class_names[static_cast<int>(tile_class)];
  if (is_paged) name += "_paged";
  if (is_modified) name += "_modified";
  return name;
}

int code_of(const InstanceAxes& axes) {
  int code = axes.value_dim / dim_step;
  code = code * 2 + (axes.dtype == FMS_BF16 ? 1 : 0);
  code = code * (max_dim / dim_step) + axes.dim / dim_step - 1;
  code = code * tile_classes + static_cast<int>(axes.tile_class);
  return (code * 2 + (axes.is_paged ? 1 : 0)) * 2 + (axes.is_modified ? 1 : 0);
}

InstanceAxes axes_of(int code) {
  InstanceAxes axes;
  axes.is_modified = code % 2 != 0;
  axes.is_paged = code / 2 % 2 != 0;
  code /= 4;
  axes.tile_class = static_cast<TileClass>(code % tile_classes);
  code /= tile_classes;
  axes.dim = (code % (max_dim / dim_step) + 1) * dim_step;
  code /= max_dim / dim_step;
  axes.dtype = code % 2 != 0 ? FMS_BF16 : FMS_F16;
  axes.value_dim = code / 2 * dim_step;
  return axes;
}

std::span<const InstanceAxes> listed_instances() {
  return listed;
}

bool is_listed(const InstanceAxes& axes) {
  return std::ranges::find(listed_instances(), axes) != listed_instances().end();
}

}  // namespace flashmoe::cuda
