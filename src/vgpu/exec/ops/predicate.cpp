// Logic on predicates (PTX ISA 9.7.8, .pred): a predicate register is a lane mask.
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/lanes.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

void and_pred(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.d, warp.predicates[inst.a] & warp.predicates[inst.b]);
}
void or_pred(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.d, warp.predicates[inst.a] | warp.predicates[inst.b]);
}
void xor_pred(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.d, warp.predicates[inst.a] ^ warp.predicates[inst.b]);
}
void not_pred(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.d, ~warp.predicates[inst.a]);
}
void mov_pred(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.d, warp.predicates[inst.a]);
}

}  // namespace

Handler find_predicate(const Key& key) {
  if (key.type() != Type::pred || key.type_count != 1) return nullptr;
  switch (key.op) {
    case Op::and_:
      return and_pred;
    case Op::or_:
      return or_pred;
    case Op::xor_:
      return xor_pred;
    case Op::not_:
      return not_pred;
    case Op::mov:
      return mov_pred;
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
