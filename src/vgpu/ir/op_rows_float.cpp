// PTX ISA 9.7.3 and 9.7.4.
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto alu = Pipe::alu;
constexpr auto fma = Pipe::fma;
constexpr auto fp64 = Pipe::fp64;
constexpr auto half = Pipe::half;
constexpr auto xu = Pipe::xu;
constexpr auto all = PoisonRule::any_to_all;

#define ROUND "[.rn,.rz,.rm,.rp]"
#define ROUND_NEEDED "{.rn,.rz,.rm,.rp}"
#define HALF "{.f16,.f16x2}"
#define BRAIN "{.bf16,.bf16x2}"
#define UNARY "d:T a:T"
#define BINARY "d:T a:T b:T"
#define TERNARY "d:T a:T b:T c:T"

constexpr OpRow rows[] = {
    {"testp", "{.finite,.infinite,.number,.notanumber,.normal,.subnormal}{.f32,.f64}", "d:pred a:T", alu, all,
     "9.7.3.1"},
    {"copysign", "{.f32,.f64}", BINARY, alu, all, "9.7.3.2"},
    {"add", ROUND "[.ftz][.sat].f32", BINARY, fma, all, "9.7.3.3"},
    {"add", ROUND ".f64", BINARY, fp64, all, "9.7.3.3"},
    {"sub", ROUND "[.ftz][.sat].f32", BINARY, fma, all, "9.7.3.4"},
    {"sub", ROUND ".f64", BINARY, fp64, all, "9.7.3.4"},
    {"mul", ROUND "[.ftz][.sat].f32", BINARY, fma, all, "9.7.3.5"},
    {"mul", ROUND ".f64", BINARY, fp64, all, "9.7.3.5"},
    {"fma", ROUND_NEEDED "[.ftz][.sat].f32", TERNARY, fma, all, "9.7.3.6"},
    {"fma", ROUND_NEEDED ".f64", TERNARY, fp64, all, "9.7.3.6"},
    {"mad", ROUND_NEEDED "[.ftz][.sat].f32", TERNARY, fma, all, "9.7.3.7"},
    {"mad", ROUND_NEEDED ".f64", TERNARY, fp64, all, "9.7.3.7"},
    {"div", "{.approx,.full}[.ftz].f32", BINARY, xu, all, "9.7.3.8"},
    {"div", ROUND_NEEDED "[.ftz].f32", BINARY, xu, all, "9.7.3.8"},
    {"div", ROUND_NEEDED ".f64", BINARY, fp64, all, "9.7.3.8"},
    {"abs", "[.ftz].f32", UNARY, alu, all, "9.7.3.9"},
    {"abs", ".f64", UNARY, alu, all, "9.7.3.9"},
    {"neg", "[.ftz].f32", UNARY, alu, all, "9.7.3.10"},
    {"neg", ".f64", UNARY, alu, all, "9.7.3.10"},
    {"min", "[.ftz][.NaN].f32", BINARY, alu, all, "9.7.3.11"},
    {"min", "[.ftz][.NaN].xorsign.abs.f32", BINARY, alu, all, "9.7.3.11"},
    {"min", ".f64", BINARY, fp64, all, "9.7.3.11"},
    {"max", "[.ftz][.NaN].f32", BINARY, alu, all, "9.7.3.12"},
    {"max", "[.ftz][.NaN].xorsign.abs.f32", BINARY, alu, all, "9.7.3.12"},
    {"max", ".f64", BINARY, fp64, all, "9.7.3.12"},
    {"rcp", "{.approx,.rn,.rz,.rm,.rp}[.ftz].f32", UNARY, xu, all, "9.7.3.13"},
    {"rcp", ROUND_NEEDED ".f64", UNARY, fp64, all, "9.7.3.13"},
    {"rcp", ".approx.ftz.f64", UNARY, xu, all, "9.7.3.14"},
    {"sqrt", "{.approx,.rn,.rz,.rm,.rp}[.ftz].f32", UNARY, xu, all, "9.7.3.15"},
    {"sqrt", ROUND_NEEDED ".f64", UNARY, fp64, all, "9.7.3.15"},
    {"rsqrt", ".approx[.ftz].f32", UNARY, xu, all, "9.7.3.16"},
    {"rsqrt", ".approx[.ftz].f64", UNARY, xu, all, "9.7.3.16"},
    {"sin", ".approx[.ftz].f32", UNARY, xu, all, "9.7.3.18"},
    {"cos", ".approx[.ftz].f32", UNARY, xu, all, "9.7.3.19"},
    {"lg2", ".approx[.ftz].f32", UNARY, xu, all, "9.7.3.20"},
    {"ex2", ".approx[.ftz].f32", UNARY, xu, all, "9.7.3.21"},
    {"tanh", ".approx.f32", UNARY, xu, all, "9.7.3.22"},

    {"add", "[.rn][.ftz][.sat]" HALF, BINARY, half, all, "9.7.4.1"},
    {"add", "[.rn]" BRAIN, BINARY, half, all, "9.7.4.1"},
    {"sub", "[.rn][.ftz][.sat]" HALF, BINARY, half, all, "9.7.4.2"},
    {"sub", "[.rn]" BRAIN, BINARY, half, all, "9.7.4.2"},
    {"mul", "[.rn][.ftz][.sat]" HALF, BINARY, half, all, "9.7.4.3"},
    {"mul", "[.rn]" BRAIN, BINARY, half, all, "9.7.4.3"},
    {"fma", ".rn[.ftz][.sat,.relu]" HALF, TERNARY, half, all, "9.7.4.4"},
    {"fma", ".rn[.relu]" BRAIN, TERNARY, half, all, "9.7.4.4"},
    {"neg", "[.ftz]" HALF, UNARY, half, all, "9.7.4.5"},
    {"neg", BRAIN, UNARY, half, all, "9.7.4.5"},
    {"abs", "[.ftz]" HALF, UNARY, half, all, "9.7.4.6"},
    {"abs", BRAIN, UNARY, half, all, "9.7.4.6"},
    {"min", "[.ftz][.NaN]" HALF, BINARY, half, all, "9.7.4.7"},
    {"min", "[.ftz][.NaN].xorsign.abs" HALF, BINARY, half, all, "9.7.4.7"},
    {"min", "[.NaN]" BRAIN, BINARY, half, all, "9.7.4.7"},
    {"min", "[.NaN].xorsign.abs" BRAIN, BINARY, half, all, "9.7.4.7"},
    {"max", "[.ftz][.NaN]" HALF, BINARY, half, all, "9.7.4.8"},
    {"max", "[.ftz][.NaN].xorsign.abs" HALF, BINARY, half, all, "9.7.4.8"},
    {"max", "[.NaN]" BRAIN, BINARY, half, all, "9.7.4.8"},
    {"max", "[.NaN].xorsign.abs" BRAIN, BINARY, half, all, "9.7.4.8"},
    {"tanh", ".approx{.f16,.f16x2,.bf16,.bf16x2}", UNARY, xu, all, "9.7.4.9"},
    {"ex2", ".approx" HALF, UNARY, xu, all, "9.7.4.10"},
    {"ex2", ".approx.ftz" BRAIN, UNARY, xu, all, "9.7.4.10"},
};

}  // namespace

std::span<const OpRow> float_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
