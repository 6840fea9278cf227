// PTX ISA 9.7.14.5: warp-level matrix instructions. The operands of a row give each lane's share in registers.
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto lsu = Pipe::lsu;
constexpr auto tensor = Pipe::tensor;
constexpr auto matrix = PoisonRule::matrix_load;
constexpr auto multiply = PoisonRule::matrix_multiply;

#define SHARED "[.shared,.shared::cta]"
#define MMA(shape) ".sync.aligned." shape ".row.col"

constexpr OpRow rows[] = {
    {"mma", MMA("m16n8k16") ".f16.f16.f16.f16", "d:v2:b32 a:v4:b32 b:v2:b32 c:v2:b32", tensor, multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k16") ".f32.f16.f16.f32", "d:v4:f32 a:v4:b32 b:v2:b32 c:v4:f32", tensor, multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k16") ".f32.bf16.bf16.f32", "d:v4:f32 a:v4:b32 b:v2:b32 c:v4:f32", tensor, multiply,
     "9.7.14.5.14"},
    {"mma", MMA("m16n8k8") ".f16.f16.f16.f16", "d:v2:b32 a:v2:b32 b:v1:b32 c:v2:b32", tensor, multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k8") ".f32.f16.f16.f32", "d:v4:f32 a:v2:b32 b:v1:b32 c:v4:f32", tensor, multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k8") ".f32.bf16.bf16.f32", "d:v4:f32 a:v2:b32 b:v1:b32 c:v4:f32", tensor, multiply,
     "9.7.14.5.14"},
    {"mma", MMA("m16n8k4") ".f32.tf32.tf32.f32", "d:v4:f32 a:v2:b32 b:v1:b32 c:v4:f32", tensor, multiply,
     "9.7.14.5.14"},
    {"mma", MMA("m16n8k8") ".f32.tf32.tf32.f32", "d:v4:f32 a:v4:b32 b:v2:b32 c:v4:f32", tensor, multiply,
     "9.7.14.5.14"},
    {"mma", MMA("m16n8k32") ".f32{.e4m3,.e5m2}{.e4m3,.e5m2}.f32", "d:v4:f32 a:v4:b32 b:v2:b32 c:v4:f32", tensor,
     multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k32") ".f16{.e4m3,.e5m2}{.e4m3,.e5m2}.f16", "d:v2:b32 a:v4:b32 b:v2:b32 c:v2:b32", tensor,
     multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k16") "[.satfinite].s32{.u8,.s8}{.u8,.s8}.s32", "d:v4:s32 a:v2:b32 b:v1:b32 c:v4:s32", tensor,
     multiply, "9.7.14.5.14"},
    {"mma", MMA("m16n8k32") "[.satfinite].s32{.u8,.s8}{.u8,.s8}.s32", "d:v4:s32 a:v4:b32 b:v2:b32 c:v4:s32", tensor,
     multiply, "9.7.14.5.14"},
    {"mma", MMA("m8n8k4") ".f64.f64.f64.f64", "d:v2:f64 a:v1:f64 b:v1:f64 c:v2:f64", tensor, multiply, "9.7.14.5.14"},

    {"ldmatrix", ".sync.aligned.m8n8.x1[.trans]" SHARED ".b16", "d:v1:b32 a:addr", lsu, matrix, "9.7.14.5.15"},
    {"ldmatrix", ".sync.aligned.m8n8.x2[.trans]" SHARED ".b16", "d:v2:b32 a:addr", lsu, matrix, "9.7.14.5.15"},
    {"ldmatrix", ".sync.aligned.m8n8.x4[.trans]" SHARED ".b16", "d:v4:b32 a:addr", lsu, matrix, "9.7.14.5.15"},
    {"stmatrix", ".sync.aligned.m8n8.x1[.trans]" SHARED ".b16", "a:addr b:v1:b32", lsu, matrix, "9.7.14.5.16"},
    {"stmatrix", ".sync.aligned.m8n8.x2[.trans]" SHARED ".b16", "a:addr b:v2:b32", lsu, matrix, "9.7.14.5.16"},
    {"stmatrix", ".sync.aligned.m8n8.x4[.trans]" SHARED ".b16", "a:addr b:v4:b32", lsu, matrix, "9.7.14.5.16"},
    {"movmatrix", ".sync.aligned.m8n8.trans.b16", "d:b32 a:b32", lsu, matrix, "9.7.14.5.17"},
};

}  // namespace

std::span<const OpRow> matrix_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
