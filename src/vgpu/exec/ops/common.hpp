// The ops that are compiled once, for every host: rare, or nothing to gain from wide vectors. Each finder answers
// nullptr for what is not its own.
#pragma once

#include "vgpu/exec/ops/key.hpp"

namespace flashmoe::vgpu::exec::ops::common {

[[nodiscard]] ir::Handler find_predicate(const Key& key);  // and.pred, mov.pred, ...
[[nodiscard]] ir::Handler find_move(const Key& key);       // mov that packs, unpacks or reads a special register
[[nodiscard]] ir::Handler find_division(const Key& key);   // div, rem on integers
[[nodiscard]] ir::Handler find_extended(const Key& key);   // carries, .sat, 64-bit .hi, mul24, sad, dp4a, 16-bit pairs
[[nodiscard]] ir::Handler find_bits(const Key& key);       // bfe, brev, clz, prmt, ...
[[nodiscard]] ir::Handler find_directed(const Key& key);   // f32 with .rz .rm .rp, and div, rcp, sqrt
[[nodiscard]] ir::Handler find_float64(const Key& key);
[[nodiscard]] ir::Handler find_select(const Key& key);           // set, slct, testp, copysign, setp on f64 and halves
[[nodiscard]] ir::Handler find_integer_convert(const Key& key);  // cvt between integers: .sat, wide registers, .pack
[[nodiscard]] ir::Handler find_float_convert(const Key& key);    // cvt with a float on one side or both
[[nodiscard]] ir::Handler find_vote(const Key& key);             // vote, match, activemask, redux, elect, movmatrix

}  // namespace flashmoe::vgpu::exec::ops::common
