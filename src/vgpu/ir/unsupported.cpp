#include <algorithm>

#include "vgpu/ir/op_table.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr UnsupportedRow rows[] = {
    {"cvt with stochastic rounding, to and from 4- and 6-bit floats, cvt.pack", "cvt.rs.f16x2.f32", "9.7.9.21"},
    {"packed pairs of f32 (sm_100)", "add.rn.f32x2", "9.7.3"},
    {"mixed-precision add, sub, fma (sm_100)", "add.rn.f32.f16", "9.7.5"},
    {"128-bit registers, loads and atomics", "atom.global.cas.b128", "9.7.13.5"},
    {"generic addresses of 32 bits", "cvta.global.u32", "9.7.9.20"},
    {"mapa, getctarank and other accesses to the shared memory of another CTA", "mapa.shared::cluster.u64", "9.7.9.23"},
    {"st.async, red.async, st.bulk", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32", "9.7.9.12"},
    {"bulk and tensor copies (TMA)", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "9.7.9.25.4"},
    {"transaction counts of mbarrier", "mbarrier.arrive.expect_tx.shared.b64", "9.7.13.15.13"},
    {"tensormap.replace and its proxy fence", "tensormap.replace.tile.global_address.global.b1024.b64", "9.7.9.26"},
    {"multimem", "multimem.ld_reduce.add.f32", "9.7.9.14"},
    {"textures of layers, cubes, mip levels, several samples; gathers; queries", "tex.level.2d.v4.f32.f32", "9.7.10"},
    {"surfaces of layers; reductions on surfaces; queries", "sured.b.add.2d.u32.trap", "9.7.11"},
    {"barrier.cluster", "barrier.cluster.arrive", "9.7.13.3"},
    {"redux of floats (sm_100)", "redux.sync.min.f32", "9.7.13.12"},
    {"wmma of 4- and 1-bit integers, or with C and D of two types", "wmma.load.a.sync.aligned.row.m8n8k32.s4",
     "9.7.14.4"},
    {"mma of other shapes and types: m8n8k4 of f16, f64 beyond m8n8k4, 4-bit and 1-bit integers, block scaling",
     "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "9.7.14.5"},
    {"sparse mma", "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "9.7.14.6"},
    {"ldmatrix and stmatrix of 8-bit elements (sm_100)", "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
     "9.7.14.5.15"},
    {"wgmma", "wgmma.fence.sync.aligned", "9.7.15"},
    {"tcgen05", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", "9.7.16"},
    {"the stack: alloca, stacksave, stackrestore", "alloca.u64", "9.7.17"},
    {"video instructions", "vadd.s32.s32.s32", "9.7.18"},
    {"pmevent", "pmevent", "9.7.19.3"},
};

// Instructions of PTX ISA 9.0 (4.3.1, reserved keywords) that no row of the op table begins with.
constexpr std::string_view other_opcodes[] = {
    "alloca",     "clusterlaunchcontrol",
    "getctarank", "istypep",
    "mapa",       "multimem",
    "pmevent",    "stackrestore",
    "stacksave",  "suq",
    "sured",      "tcgen05",
    "tensormap",  "tld4",
    "txq",        "vabsdiff",
    "vabsdiff2",  "vabsdiff4",
    "vadd",       "vadd2",
    "vadd4",      "vavrg2",
    "vavrg4",     "vmad",
    "vmax",       "vmax2",
    "vmax4",      "vmin",
    "vmin2",      "vmin4",
    "vset",       "vset2",
    "vset4",      "vshl",
    "vshr",       "vsub",
    "vsub2",      "vsub4",
    "wgmma",      "wmma",
};

}  // namespace

bool is_ptx_opcode(std::string_view opcode) {
  const auto executed = op_table();
  return std::find(std::begin(other_opcodes), std::end(other_opcodes), opcode) != std::end(other_opcodes) ||
         std::any_of(executed.begin(), executed.end(), [opcode](const OpRow& row) { return row.opcode == opcode; });
}

std::span<const UnsupportedRow> unsupported_table() {
  return rows;
}

std::span<const std::string_view> opcodes_not_executed() {
  return other_opcodes;
}

}  // namespace flashmoe::vgpu::ir
