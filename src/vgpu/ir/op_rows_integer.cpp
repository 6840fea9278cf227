// PTX ISA 9.7.1 and 9.7.2.
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto alu = Pipe::alu;
constexpr auto fma = Pipe::fma;  // IMAD shares the FMA pipe since Volta
constexpr auto xu = Pipe::xu;
constexpr auto all = PoisonRule::any_to_all;
constexpr auto bits = PoisonRule::bitwise;
constexpr auto move = PoisonRule::move;

#define WIDTHS_16_TO_64 "{.u16,.u32,.u64,.s16,.s32,.s64}"

constexpr OpRow rows[] = {
    {"add", WIDTHS_16_TO_64, "d:T a:T b:T", alu, all, "9.7.1.1"},
    {"add", "{.u16x2,.s16x2}", "d:T a:T b:T", alu, all, "9.7.1.1"},
    {"add", ".sat.s32", "d:T a:T b:T", alu, all, "9.7.1.1"},
    {"sub", WIDTHS_16_TO_64, "d:T a:T b:T", alu, all, "9.7.1.2"},
    {"sub", ".sat.s32", "d:T a:T b:T", alu, all, "9.7.1.2"},
    {"mul", "{.lo,.hi}" WIDTHS_16_TO_64, "d:T a:T b:T", fma, all, "9.7.1.3"},
    {"mul", ".wide{.u16,.u32,.s16,.s32}", "d:W a:T b:T", fma, all, "9.7.1.3"},
    {"mad", "{.lo,.hi}" WIDTHS_16_TO_64, "d:T a:T b:T c:T", fma, all, "9.7.1.4"},
    {"mad", ".wide{.u16,.u32,.s16,.s32}", "d:W a:T b:T c:W", fma, all, "9.7.1.4"},
    {"mad", ".hi.sat.s32", "d:T a:T b:T c:T", fma, all, "9.7.1.4"},
    {"mul24", "{.lo,.hi}{.u32,.s32}", "d:T a:T b:T", fma, all, "9.7.1.5"},
    {"mad24", "{.lo,.hi}{.u32,.s32}", "d:T a:T b:T c:T", fma, all, "9.7.1.6"},
    {"mad24", ".hi.sat.s32", "d:T a:T b:T c:T", fma, all, "9.7.1.6"},
    {"sad", WIDTHS_16_TO_64, "d:T a:T b:T c:T", alu, all, "9.7.1.7"},
    {"div", WIDTHS_16_TO_64, "d:T a:T b:T", xu, all, "9.7.1.8"},
    {"rem", WIDTHS_16_TO_64, "d:T a:T b:T", xu, all, "9.7.1.9"},
    {"abs", "{.s16,.s32,.s64}", "d:T a:T", alu, all, "9.7.1.10"},
    {"neg", "{.s16,.s32,.s64}", "d:T a:T", alu, all, "9.7.1.11"},
    {"min", "{.u16,.u32,.u64,.s16,.s64,.u16x2}", "d:T a:T b:T", alu, all, "9.7.1.12"},
    {"min", "[.relu]{.s32,.s16x2}", "d:T a:T b:T", alu, all, "9.7.1.12"},
    {"max", "{.u16,.u32,.u64,.s16,.s64,.u16x2}", "d:T a:T b:T", alu, all, "9.7.1.13"},
    {"max", "[.relu]{.s32,.s16x2}", "d:T a:T b:T", alu, all, "9.7.1.13"},
    {"popc", "{.b32,.b64}", "d:u32 a:T", xu, all, "9.7.1.14"},
    {"clz", "{.b32,.b64}", "d:u32 a:T", xu, all, "9.7.1.15"},
    {"bfind", "[.shiftamt]{.u32,.u64,.s32,.s64}", "d:u32 a:T", xu, all, "9.7.1.16"},
    {"fns", ".b32", "d:T a:T b:u32 c:s32", alu, all, "9.7.1.17"},
    {"brev", "{.b32,.b64}", "d:T a:T", xu, all, "9.7.1.18"},
    {"bfe", "{.u32,.u64,.s32,.s64}", "d:T a:T b:u32 c:u32", alu, all, "9.7.1.19"},
    {"bfi", "{.b32,.b64}", "d:T a:T b:T c:u32 m:u32", alu, all, "9.7.1.20"},
    {"szext", "{.clamp,.wrap}{.u32,.s32}", "d:T a:T b:u32", alu, all, "9.7.1.21"},
    {"bmsk", "{.clamp,.wrap}.b32", "d:T a:u32 b:u32", alu, all, "9.7.1.22"},
    {"dp4a", "{.u32,.s32}{.u32,.s32}", "d:b32 a:b32 b:b32 c:b32", fma, all, "9.7.1.23"},
    {"dp2a", "{.lo,.hi}{.u32,.s32}{.u32,.s32}", "d:b32 a:b32 b:b32 c:b32", fma, all, "9.7.1.24"},

    // The carry flag CC.CF is a predicate of its own: e out, m in.
    {"add", ".cc{.u32,.s32,.u64,.s64}", "d:T a:T b:T e:carry", alu, all, "9.7.2.1"},
    {"addc", "{.u32,.s32,.u64,.s64}", "d:T a:T b:T m:carry", alu, all, "9.7.2.2"},
    {"addc", ".cc{.u32,.s32,.u64,.s64}", "d:T a:T b:T m:carry e:carry", alu, all, "9.7.2.2"},
    {"sub", ".cc{.u32,.s32,.u64,.s64}", "d:T a:T b:T e:carry", alu, all, "9.7.2.3"},
    {"subc", "{.u32,.s32,.u64,.s64}", "d:T a:T b:T m:carry", alu, all, "9.7.2.4"},
    {"subc", ".cc{.u32,.s32,.u64,.s64}", "d:T a:T b:T m:carry e:carry", alu, all, "9.7.2.4"},
    {"mad", "{.lo,.hi}.cc{.u32,.s32,.u64,.s64}", "d:T a:T b:T c:T e:carry", fma, all, "9.7.2.5"},
    {"madc", "{.lo,.hi}{.u32,.s32,.u64,.s64}", "d:T a:T b:T c:T m:carry", fma, all, "9.7.2.6"},
    {"madc", "{.lo,.hi}.cc{.u32,.s32,.u64,.s64}", "d:T a:T b:T c:T m:carry e:carry", fma, all, "9.7.2.6"},

    // 9.7.8, here because they are integer work as well
    {"and", "{.b16,.b32,.b64}", "d:T a:T b:T", alu, bits, "9.7.8.1"},
    {"and", ".pred", "d:pred a:pred b:pred", alu, bits, "9.7.8.1"},
    {"or", "{.b16,.b32,.b64}", "d:T a:T b:T", alu, bits, "9.7.8.2"},
    {"or", ".pred", "d:pred a:pred b:pred", alu, bits, "9.7.8.2"},
    {"xor", "{.b16,.b32,.b64}", "d:T a:T b:T", alu, bits, "9.7.8.3"},
    {"xor", ".pred", "d:pred a:pred b:pred", alu, bits, "9.7.8.3"},
    {"not", "{.b16,.b32,.b64}", "d:T a:T", alu, bits, "9.7.8.4"},
    {"not", ".pred", "d:pred a:pred", alu, bits, "9.7.8.4"},
    {"cnot", "{.b16,.b32,.b64}", "d:T a:T", alu, all, "9.7.8.5"},
    {"lop3", ".b32", "d:T a:T b:T c:T imm:immediate", alu, all, "9.7.8.6"},
    {"lop3", "{.or,.and}.b32", "d:T|e:pred a:T b:T c:T imm:immediate m:pred", alu, all, "9.7.8.6"},
    {"shf", "{.l,.r}{.clamp,.wrap}.b32", "d:T a:T b:T c:u32", alu, all, "9.7.8.7"},
    {"shl", "{.b16,.b32,.b64}", "d:T a:T b:u32", alu, bits, "9.7.8.8"},
    {"shr", "{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64}", "d:T a:T b:u32", alu, bits, "9.7.8.9"},
    {"prmt", ".b32[.f4e,.b4e,.rc8,.ecl,.ecr,.rc16]", "d:T a:T b:T c:u32", alu, move, "9.7.9.7"},
};

}  // namespace

std::span<const OpRow> integer_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
