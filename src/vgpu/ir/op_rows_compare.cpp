// PTX ISA 9.7.6 and 9.7.7: set, setp, selp, slct.
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto alu = Pipe::alu;
constexpr auto half = Pipe::half;
constexpr auto fp64 = Pipe::fp64;
constexpr auto all = PoisonRule::any_to_all;
constexpr auto select = PoisonRule::select;

#define ORDERED "{.eq,.ne,.lt,.le,.gt,.ge}"
#define UNSIGNED_ORDERED "{.eq,.ne,.lt,.le,.gt,.ge,.lo,.ls,.hi,.hs}"
#define FLOAT_COMPARE "{.eq,.ne,.lt,.le,.gt,.ge,.equ,.neu,.ltu,.leu,.gtu,.geu,.num,.nan}"
#define BOOLEAN "{.and,.or,.xor}"
#define SET_RESULT "{.u32,.s32,.f32}"
#define SETP "d:pred|e:pred a:T b:T"
#define SETP_WITH "d:pred|e:pred a:T b:T c:pred"
#define SET "d:U a:T b:T"
#define SET_WITH "d:U a:T b:T c:pred"

constexpr OpRow rows[] = {
    {"set", "{.eq,.ne}" SET_RESULT "{.b16,.b32,.b64}", SET, alu, all, "9.7.6.1"},
    {"set", ORDERED SET_RESULT "{.s16,.s32,.s64}", SET, alu, all, "9.7.6.1"},
    {"set", UNSIGNED_ORDERED SET_RESULT "{.u16,.u32,.u64}", SET, alu, all, "9.7.6.1"},
    {"set", FLOAT_COMPARE "[.ftz]" SET_RESULT ".f32", SET, alu, all, "9.7.6.1"},
    {"set", FLOAT_COMPARE SET_RESULT ".f64", SET, fp64, all, "9.7.6.1"},
    {"set", "{.eq,.ne}" BOOLEAN SET_RESULT "{.b16,.b32,.b64}", SET_WITH, alu, all, "9.7.6.1"},
    {"set", ORDERED BOOLEAN SET_RESULT "{.s16,.s32,.s64}", SET_WITH, alu, all, "9.7.6.1"},
    {"set", UNSIGNED_ORDERED BOOLEAN SET_RESULT "{.u16,.u32,.u64}", SET_WITH, alu, all, "9.7.6.1"},
    {"set", FLOAT_COMPARE BOOLEAN "[.ftz]" SET_RESULT ".f32", SET_WITH, alu, all, "9.7.6.1"},
    {"set", FLOAT_COMPARE BOOLEAN SET_RESULT ".f64", SET_WITH, fp64, all, "9.7.6.1"},

    {"setp", "{.eq,.ne}{.b16,.b32,.b64}", SETP, alu, all, "9.7.6.2"},
    {"setp", ORDERED "{.s16,.s32,.s64}", SETP, alu, all, "9.7.6.2"},
    {"setp", UNSIGNED_ORDERED "{.u16,.u32,.u64}", SETP, alu, all, "9.7.6.2"},
    {"setp", FLOAT_COMPARE "[.ftz].f32", SETP, alu, all, "9.7.6.2"},
    {"setp", FLOAT_COMPARE ".f64", SETP, fp64, all, "9.7.6.2"},
    {"setp", "{.eq,.ne}" BOOLEAN "{.b16,.b32,.b64}", SETP_WITH, alu, all, "9.7.6.2"},
    {"setp", ORDERED BOOLEAN "{.s16,.s32,.s64}", SETP_WITH, alu, all, "9.7.6.2"},
    {"setp", UNSIGNED_ORDERED BOOLEAN "{.u16,.u32,.u64}", SETP_WITH, alu, all, "9.7.6.2"},
    {"setp", FLOAT_COMPARE BOOLEAN "[.ftz].f32", SETP_WITH, alu, all, "9.7.6.2"},
    {"setp", FLOAT_COMPARE BOOLEAN ".f64", SETP_WITH, fp64, all, "9.7.6.2"},

    {"selp", "{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64,.f32,.f64}", "d:T a:T b:T c:pred", alu, select, "9.7.6.3"},
    {"slct", "{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64,.f32,.f64}.s32", "d:U a:U b:U c:T", alu, select, "9.7.6.4"},
    {"slct", "[.ftz]{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64,.f32,.f64}.f32", "d:U a:U b:U c:T", alu, select,
     "9.7.6.4"},

    {"set", FLOAT_COMPARE "[.ftz]{.f16,.u16,.s16,.u32,.s32,.f32}.f16", SET, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE "{.bf16,.u16,.s16,.u32,.s32,.f32}.bf16", SET, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE "[.ftz]{.f16x2,.u32,.s32}.f16x2", SET, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE "{.bf16x2,.u32,.s32}.bf16x2", SET, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE BOOLEAN "[.ftz]{.f16,.u16,.s16,.u32,.s32,.f32}.f16", SET_WITH, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE BOOLEAN "{.bf16,.u16,.s16,.u32,.s32,.f32}.bf16", SET_WITH, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE BOOLEAN "[.ftz]{.f16x2,.u32,.s32}.f16x2", SET_WITH, half, all, "9.7.7.1"},
    {"set", FLOAT_COMPARE BOOLEAN "{.bf16x2,.u32,.s32}.bf16x2", SET_WITH, half, all, "9.7.7.1"},
    // Of the x2 types d is the low half's answer and e the high half's.
    {"setp", FLOAT_COMPARE "[.ftz]{.f16,.f16x2}", SETP, half, all, "9.7.7.2"},
    {"setp", FLOAT_COMPARE "{.bf16,.bf16x2}", SETP, half, all, "9.7.7.2"},
    {"setp", FLOAT_COMPARE BOOLEAN "[.ftz]{.f16,.f16x2}", SETP_WITH, half, all, "9.7.7.2"},
    {"setp", FLOAT_COMPARE BOOLEAN "{.bf16,.bf16x2}", SETP_WITH, half, all, "9.7.7.2"},
};

}  // namespace

std::span<const OpRow> compare_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
