// PTX ISA 9.7.9: what moves and converts registers. In cvt, as in ld and st, a register may be wider than the type
// (9.4.1, `+`).
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto alu = Pipe::alu;
constexpr auto fma = Pipe::fma;
constexpr auto fp64 = Pipe::fp64;
constexpr auto half = Pipe::half;
constexpr auto xu = Pipe::xu;
constexpr auto lsu = Pipe::lsu;
constexpr auto uniform = Pipe::uniform;
constexpr auto all = PoisonRule::any_to_all;
constexpr auto move = PoisonRule::move;

#define INTEGERS "{.u8,.u16,.u32,.u64,.s8,.s16,.s32,.s64}"
#define TO_INTEGER "{.rni,.rzi,.rmi,.rpi}"
#define ROUND "{.rn,.rz,.rm,.rp}"
#define CONVERT "d:U+ a:T+"

constexpr OpRow rows[] = {
    {"mov", "{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64,.f32,.f64}", "d:pack:T a:pack:T", alu, move, "9.7.9.3"},
    {"mov", ".pred", "d:pred a:pred", alu, move, "9.7.9.3"},
    {"shfl", "{.up,.down,.bfly,.idx}.b32", "d:T|e:pred a:T b:u32 c:u32", lsu, move, "9.7.9.5"},
    {"shfl", ".sync{.up,.down,.bfly,.idx}.b32", "d:T|e:pred a:T b:u32 c:u32 m:mask", lsu, move, "9.7.9.6"},
    {"isspacep", "{.const,.global,.local,.shared,.shared::cta,.shared::cluster,.param,.param::entry}", "d:pred a:any",
     alu, all, "9.7.9.19"},
    {"cvta", "[.to]{.const,.global,.local,.shared,.shared::cta,.shared::cluster,.param,.param::entry}.u64", "d:T a:T",
     uniform, move, "9.7.9.20"},

    // The pipe is that of the instruction which ptxas converts with: tests/vgpu/conversion_pipes_test.py asks it.
    {"cvt", INTEGERS INTEGERS, CONVERT, alu, move, "9.7.9.21"},
    {"cvt", ".sat" INTEGERS INTEGERS, CONVERT, alu, all, "9.7.9.21"},
    {"cvt", "{.rn,.rz}[.sat].f32{.u8,.u16,.u32,.s32}", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", "{.rn,.rz}[.sat].f32{.u64,.s8,.s16,.s64}", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rm,.rp}[.sat].f32" INTEGERS, CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ROUND "[.sat]{.f16,.f64}" INTEGERS, CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ROUND ".bf16" INTEGERS, CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rni,.rzi}[.sat].u8.f32", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", "{.rni,.rzi}.ftz[.sat].u8.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rmi,.rpi}[.ftz][.sat].u8.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", TO_INTEGER "[.ftz][.sat]{.u16,.u32,.u64,.s8,.s16,.s32,.s64}.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", TO_INTEGER "[.sat]" INTEGERS "{.f16,.bf16,.f64}", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", TO_INTEGER "[.ftz][.sat].f32.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", TO_INTEGER "[.sat].f16.f16", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", TO_INTEGER "[.sat].f64.f64", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ".ftz[.sat].f32.f32", CONVERT, fma, all, "9.7.9.21"},
    {"cvt", ".sat.f32.f32", CONVERT, fma, all, "9.7.9.21"},
    {"cvt", "[.sat].f16.f16", CONVERT, half, all, "9.7.9.21"},
    {"cvt", ".sat.f64.f64", CONVERT, fp64, all, "9.7.9.21"},
    {"cvt", ".f32.f32", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", ".f64.f64", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", "[.ftz][.sat].f32.f16", CONVERT, half, all, "9.7.9.21"},
    {"cvt", ".f32.bf16", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", ".ftz.f32.bf16", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "[.ftz][.sat].f64.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "[.sat].f64.f16", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ".f64.bf16", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ROUND "[.ftz][.sat].f32.f64", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rn,.rz}[.ftz][.sat].f16.f32", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", "{.rm,.rp}[.ftz][.sat].f16.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rn,.rz}.relu[.satfinite].f16.f32", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", ROUND "[.sat].f16.f64", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ROUND ".f16.bf16", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", ROUND ".bf16.f16", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rm,.rp}.bf16.f32", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rn,.rz}[.relu][.satfinite].bf16.f32", CONVERT, alu, all, "9.7.9.21"},
    {"cvt", ROUND ".bf16.f64", CONVERT, xu, all, "9.7.9.21"},
    {"cvt", "{.rn,.rz}[.relu][.satfinite]{.f16x2,.bf16x2}.f32", "d:U a:T b:T", alu, all, "9.7.9.21"},
    {"cvt", "{.rna,.rn,.rz}[.relu][.satfinite].tf32.f32", "d:U a:T", alu, all, "9.7.9.21"},
    {"cvt", ".rn.satfinite[.relu]{.e4m3x2,.e5m2x2}.f32", "d:U a:T b:T", alu, all, "9.7.9.21"},
    {"cvt", ".rn.satfinite[.relu]{.e4m3x2,.e5m2x2}.f16x2", "d:U a:T", alu, all, "9.7.9.21"},
    {"cvt", ".rn[.relu].f16x2{.e4m3x2,.e5m2x2}", "d:U a:T", alu, all, "9.7.9.21"},
};

}  // namespace

std::span<const OpRow> move_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
