#include "vgpu/exec/ops/arithmetic.hpp"

#include <span>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec {
namespace ops {
namespace {

#define VGPU_FINDERS(variant)                                                                       \
  {                                                                                                 \
    variant::find_integer, variant::find_float32, variant::find_approximate, variant::find_compare, \
        variant::find_convert, variant::find_shuffle, variant::find_half, variant::find_matrix      \
  }
constexpr Find baseline_finders[] = VGPU_FINDERS(baseline);
constexpr Find avx2_finders[] = VGPU_FINDERS(avx2);
constexpr Find avx512_finders[] = VGPU_FINDERS(avx512);
#undef VGPU_FINDERS

constexpr Find common_finders[] = {
    common::find_predicate,       common::find_move,          common::find_division,
    common::find_extended,        common::find_bits,          common::find_directed,
    common::find_float64,         common::find_select,        common::find_vote,
    common::find_integer_convert, common::find_float_convert,
};

std::span<const Find> finders_of(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return avx2_finders;
    case Isa::avx512:
      return avx512_finders;
    case Isa::baseline:
      break;
  }
  return baseline_finders;
}

}  // namespace

ir::Handler arithmetic_handler_for(const ir::Form& form, Isa isa) {
  Key key;
  if (!make_key(form, key)) return nullptr;
  for (const std::span<const Find> finders : {finders_of(isa), std::span<const Find>(common_finders)}) {
    for (const Find find : finders) {
      if (const ir::Handler found = find(key)) return found;
    }
  }
  return nullptr;
}

}  // namespace ops

ir::Handler arithmetic_handler(const ir::Form& form) {
  return ops::arithmetic_handler_for(form, ops::chosen_isa());
}

}  // namespace flashmoe::vgpu::exec
