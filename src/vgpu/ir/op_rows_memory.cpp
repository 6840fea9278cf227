// PTX ISA 9.7.9 (memory), 9.7.13.5 and .6 (atomics), 9.7.13.15 (mbarrier). Cache hints are read and change nothing.
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto lsu = Pipe::lsu;
constexpr auto uniform = Pipe::uniform;
constexpr auto copies = Pipe::async_copy;
constexpr auto load = PoisonRule::load;
constexpr auto store = PoisonRule::store;
constexpr auto atomic = PoisonRule::atomic;
constexpr auto copy = PoisonRule::async_copy;
constexpr auto none = PoisonRule::none;
constexpr auto all = PoisonRule::any_to_all;

#define MEMORY_TYPES "{.b8,.b16,.b32,.b64,.u8,.u16,.u32,.u64,.s8,.s16,.s32,.s64,.f32,.f64}"
#define VECTOR "[.v2,.v4]"
#define EIGHT ".v8{.b32,.u32,.s32,.f32}"  // 256 bits at once, global memory only
#define SURFACE_TYPES "{.b8,.b16,.b32,.b64}{.trap,.clamp,.zero}"
#define SHARED ".shared,.shared::cta,.shared::cluster"
#define SCOPE ".cta,.cluster,.gpu,.sys"
#define HINTS                                                                                                    \
  "<.L1::evict_normal,.L1::evict_unchanged,.L1::evict_first,.L1::evict_last,.L1::no_allocate,.L2::evict_normal," \
  ".L2::evict_first,.L2::evict_last,.L2::cache_hint,.L2::64B,.L2::128B,.L2::256B>"
#define CACHE_HINT "<.L2::cache_hint>"
#define LOAD "d:v:T+ a:addr policy:b64?"
#define STORE "a:addr b:v:T+ policy:b64?"
// An atomic without .sem is relaxed, without scope .gpu.
#define ATOMIC "[.relaxed,.acquire,.release,.acq_rel][" SCOPE "][.global," SHARED "]"
#define REDUCTION "[.relaxed,.release][" SCOPE "][.global," SHARED "]"
#define ATOM "d:T a:addr b:T policy:b64?"
#define RED "a:addr b:T policy:b64?"
#define MBARRIER_SPACE "[.shared,.shared::cta].b64"
#define PRIORITIES "{.L2::evict_last,.L2::evict_normal,.L2::evict_first,.L2::evict_unchanged}"

constexpr OpRow rows[] = {
    {"ld",
     "[.weak][.global," SHARED
     ",.local,.const,.param,.param::entry,.param::func][.ca,.cg,.cs,.lu,.cv]" HINTS VECTOR MEMORY_TYPES,
     LOAD, lsu, load, "9.7.9.8"},
    {"ld", "[.weak][.global][.ca,.cg,.cs,.lu,.cv]" HINTS EIGHT, LOAD, lsu, load, "9.7.9.8"},
    {"ld", ".volatile[.global," SHARED ",.local]" VECTOR MEMORY_TYPES, LOAD, lsu, load, "9.7.9.8"},
    {"ld", "{.relaxed,.acquire}{" SCOPE "}[.global," SHARED "]" HINTS VECTOR MEMORY_TYPES, LOAD, lsu, load, "9.7.9.8"},
    {"ld", "{.relaxed,.acquire}{" SCOPE "}[.global]" HINTS EIGHT, LOAD, lsu, load, "9.7.9.8"},
    {"ld", ".mmio.relaxed.sys[.global]" MEMORY_TYPES, LOAD, lsu, load, "9.7.9.8"},
    {"ld", ".global.nc[.ca,.cg,.cs]" HINTS VECTOR MEMORY_TYPES, LOAD, lsu, load, "9.7.9.9"},
    {"ld", ".global.nc[.ca,.cg,.cs]" HINTS EIGHT, LOAD, lsu, load, "9.7.9.9"},
    {"ldu", "[.global]" VECTOR MEMORY_TYPES, LOAD, lsu, load, "9.7.9.10"},
    {"st", "[.weak][.global," SHARED ",.local,.param,.param::func][.wb,.cg,.cs,.wt]" HINTS VECTOR MEMORY_TYPES, STORE,
     lsu, store, "9.7.9.11"},
    {"st", "[.weak][.global][.wb,.cg,.cs,.wt]" HINTS EIGHT, STORE, lsu, store, "9.7.9.11"},
    {"st", ".volatile[.global," SHARED ",.local]" VECTOR MEMORY_TYPES, STORE, lsu, store, "9.7.9.11"},
    {"st", "{.relaxed,.release}{" SCOPE "}[.global," SHARED "]" HINTS VECTOR MEMORY_TYPES, STORE, lsu, store,
     "9.7.9.11"},
    {"st", "{.relaxed,.release}{" SCOPE "}[.global]" HINTS EIGHT, STORE, lsu, store, "9.7.9.11"},
    {"st", ".mmio.relaxed.sys[.global]" MEMORY_TYPES, STORE, lsu, store, "9.7.9.11"},

    // [handle, {x, y}] is read as two operands.
    {"tex", ".1d.v4{.f32,.u32,.s32}{.s32,.f32}", "d:v4:U a:b64 b:v1:T", lsu, all, "9.7.10.3"},
    {"tex", ".2d.v4{.f32,.u32,.s32}{.s32,.f32}", "d:v4:U a:b64 b:v2:T", lsu, all, "9.7.10.3"},
    {"tex", ".3d.v4{.f32,.u32,.s32}{.s32,.f32}", "d:v4:U a:b64 b:v4:T", lsu, all, "9.7.10.3"},
    {"suld", ".b.1d[.ca,.cg,.cs,.cv]" VECTOR SURFACE_TYPES, "d:v:T+ a:b64 b:v1:b32", lsu, all, "9.7.11.1"},
    {"suld", ".b.2d[.ca,.cg,.cs,.cv]" VECTOR SURFACE_TYPES, "d:v:T+ a:b64 b:v2:b32", lsu, all, "9.7.11.1"},
    {"suld", ".b.3d[.ca,.cg,.cs,.cv]" VECTOR SURFACE_TYPES, "d:v:T+ a:b64 b:v4:b32", lsu, all, "9.7.11.1"},
    {"sust", ".b.1d[.wb,.cg,.cs,.wt]" VECTOR SURFACE_TYPES, "a:b64 b:v1:b32 c:v:T+", lsu, none, "9.7.11.2"},
    {"sust", ".b.2d[.wb,.cg,.cs,.wt]" VECTOR SURFACE_TYPES, "a:b64 b:v2:b32 c:v:T+", lsu, none, "9.7.11.2"},
    {"sust", ".b.3d[.wb,.cg,.cs,.wt]" VECTOR SURFACE_TYPES, "a:b64 b:v4:b32 c:v:T+", lsu, none, "9.7.11.2"},

    {"prefetch", "[.global,.local]{.L1,.L2}", "a:addr", lsu, none, "9.7.9.15"},
    {"prefetch", ".global{.L2::evict_last,.L2::evict_normal}", "a:addr", lsu, none, "9.7.9.15"},
    {"prefetchu", ".L1", "a:addr", lsu, none, "9.7.9.15"},
    {"applypriority", "[.global].L2::evict_normal", "a:addr size:immediate", lsu, none, "9.7.9.16"},
    {"discard", "[.global].L2", "a:addr size:immediate", lsu, none, "9.7.9.17"},
    {"createpolicy", ".fractional" PRIORITIES "[.L2::evict_first,.L2::evict_unchanged].b64", "d:b64 a:f32?", uniform,
     none, "9.7.9.18"},
    {"createpolicy", ".range[.global]" PRIORITIES "[.L2::evict_first,.L2::evict_unchanged].b64",
     "d:b64 a:addr b:u32 c:u32", uniform, none, "9.7.9.18"},
    {"createpolicy", ".cvt.L2.b64", "d:b64 a:b64", uniform, none, "9.7.9.18"},

    {"cp", ".async{.ca,.cg}{.shared,.shared::cta}.global" HINTS,
     "a:addr b:addr size:immediate c:u32? e:pred? policy:b64?", copies, copy, "9.7.9.25.3"},
    {"cp", ".async.commit_group", "", copies, none, "9.7.9.25.3"},
    {"cp", ".async.wait_group", "imm:immediate", copies, none, "9.7.9.25.3"},
    {"cp", ".async.wait_all", "", copies, none, "9.7.9.25.3"},

    {"atom", ATOMIC ".add" CACHE_HINT "{.u32,.s32,.u64,.f32,.f64}", ATOM, lsu, atomic, "9.7.13.5"},
    {"atom", ATOMIC "{.min,.max}" CACHE_HINT "{.u32,.s32,.u64,.s64}", ATOM, lsu, atomic, "9.7.13.5"},
    {"atom", ATOMIC "{.and,.or,.xor,.exch}" CACHE_HINT "{.b32,.b64}", ATOM, lsu, atomic, "9.7.13.5"},
    {"atom", ATOMIC "{.inc,.dec}" CACHE_HINT ".u32", ATOM, lsu, atomic, "9.7.13.5"},
    {"atom", ATOMIC ".cas" CACHE_HINT "{.b16,.b32,.b64}", "d:T a:addr b:T c:T policy:b64?", lsu, atomic, "9.7.13.5"},
    {"atom", ATOMIC ".add.noftz" CACHE_HINT "{.f16,.f16x2,.bf16,.bf16x2}", ATOM, lsu, atomic, "9.7.13.5"},
    {"atom", "[.relaxed,.acquire,.release,.acq_rel][" SCOPE "][.global].add" CACHE_HINT "{.v2,.v4}.f32",
     "d:v:T a:addr b:v:T policy:b64?", lsu, atomic, "9.7.13.5"},
    {"atom",
     "[.relaxed,.acquire,.release,.acq_rel][" SCOPE "][.global]{.add,.min,.max}.noftz" CACHE_HINT
     "{.v2,.v4,.v8}{.f16,.bf16}",
     "d:v:T a:addr b:v:T policy:b64?", lsu, atomic, "9.7.13.5"},
    {"atom",
     "[.relaxed,.acquire,.release,.acq_rel][" SCOPE "][.global]{.add,.min,.max}.noftz" CACHE_HINT
     "{.v2,.v4}{.f16x2,.bf16x2}",
     "d:v:T a:addr b:v:T policy:b64?", lsu, atomic, "9.7.13.5"},

    {"red", REDUCTION ".add" CACHE_HINT "{.u32,.s32,.u64,.f32,.f64}", RED, lsu, atomic, "9.7.13.6"},
    {"red", REDUCTION "{.min,.max}" CACHE_HINT "{.u32,.s32,.u64,.s64}", RED, lsu, atomic, "9.7.13.6"},
    {"red", REDUCTION "{.and,.or,.xor}" CACHE_HINT "{.b32,.b64}", RED, lsu, atomic, "9.7.13.6"},
    {"red", REDUCTION "{.inc,.dec}" CACHE_HINT ".u32", RED, lsu, atomic, "9.7.13.6"},
    {"red", REDUCTION ".add.noftz" CACHE_HINT "{.f16,.f16x2,.bf16,.bf16x2}", RED, lsu, atomic, "9.7.13.6"},
    {"red", "[.relaxed,.release][" SCOPE "][.global].add" CACHE_HINT "{.v2,.v4}.f32", "a:addr b:v:T policy:b64?", lsu,
     atomic, "9.7.13.6"},
    {"red", "[.relaxed,.release][" SCOPE "][.global]{.add,.min,.max}.noftz" CACHE_HINT "{.v2,.v4,.v8}{.f16,.bf16}",
     "a:addr b:v:T policy:b64?", lsu, atomic, "9.7.13.6"},
    {"red", "[.relaxed,.release][" SCOPE "][.global]{.add,.min,.max}.noftz" CACHE_HINT "{.v2,.v4}{.f16x2,.bf16x2}",
     "a:addr b:v:T policy:b64?", lsu, atomic, "9.7.13.6"},

    {"mbarrier", ".init" MBARRIER_SPACE, "a:addr b:u32", lsu, store, "9.7.13.15.9"},
    {"mbarrier", ".inval" MBARRIER_SPACE, "a:addr", lsu, store, "9.7.13.15.10"},
    {"mbarrier", "{.arrive,.arrive_drop}[.release,.relaxed][.cta,.cluster]" MBARRIER_SPACE, "d:b64 a:addr b:u32?", lsu,
     atomic, "9.7.13.15.13"},
    {"mbarrier", "{.arrive,.arrive_drop}.noComplete[.release][.cta]" MBARRIER_SPACE, "d:b64 a:addr b:u32", lsu, atomic,
     "9.7.13.15.13"},
    {"cp", ".async.mbarrier.arrive[.noinc]" MBARRIER_SPACE, "a:addr", copies, atomic, "9.7.13.15.15"},
    {"mbarrier", ".test_wait[.acquire,.relaxed][.cta,.cluster]" MBARRIER_SPACE, "d:pred a:addr b:b64", lsu, atomic,
     "9.7.13.15.16"},
    {"mbarrier", ".test_wait.parity[.acquire,.relaxed][.cta,.cluster]" MBARRIER_SPACE, "d:pred a:addr b:u32", lsu,
     atomic, "9.7.13.15.16"},
    {"mbarrier", ".try_wait[.acquire,.relaxed][.cta,.cluster]" MBARRIER_SPACE, "d:pred a:addr b:b64 c:u32?", lsu,
     atomic, "9.7.13.15.16"},
    {"mbarrier", ".try_wait.parity[.acquire,.relaxed][.cta,.cluster]" MBARRIER_SPACE, "d:pred a:addr b:u32 c:u32?", lsu,
     atomic, "9.7.13.15.16"},
    {"mbarrier", ".pending_count.b64", "d:u32 a:b64", lsu, PoisonRule::any_to_all, "9.7.13.15.17"},
};

}  // namespace

std::span<const OpRow> memory_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
