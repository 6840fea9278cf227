// PTX ISA 9.7.12, 9.7.13 and 9.7.19: control flow, barriers, fences, votes.
#include "vgpu/ir/op_rows.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr auto alu = Pipe::alu;
constexpr auto control = Pipe::control;
constexpr auto barrier = Pipe::barrier;
constexpr auto uniform = Pipe::uniform;
constexpr auto none = PoisonRule::none;
constexpr auto all = PoisonRule::any_to_all;
constexpr auto vote = PoisonRule::vote;

constexpr OpRow rows[] = {
    {"bra", "[.uni]", "target:label", control, none, "9.7.12.3"},
    {"brx", ".idx[.uni]", "a:u32 list:targets", control, none, "9.7.12.4"},
    {"call", "[.uni]", "call", control, none, "9.7.12.5"},
    {"ret", "[.uni]", "", control, none, "9.7.12.6"},
    {"exit", "", "", control, none, "9.7.12.7"},

    {"bar", "[.cta].sync", "a:u32 b:u32?", barrier, none, "9.7.13.1"},
    {"bar", "[.cta].arrive", "a:u32 b:u32", barrier, none, "9.7.13.1"},
    {"bar", "[.cta].red.popc.u32", "d:u32 a:u32 b:u32? c:pred", barrier, all, "9.7.13.1"},
    {"bar", "[.cta].red{.and,.or}.pred", "d:pred a:u32 b:u32? c:pred", barrier, all, "9.7.13.1"},
    {"barrier", "[.cta].sync[.aligned]", "a:u32 b:u32?", barrier, none, "9.7.13.1"},
    {"barrier", "[.cta].arrive[.aligned]", "a:u32 b:u32", barrier, none, "9.7.13.1"},
    {"barrier", "[.cta].red.popc[.aligned].u32", "d:u32 a:u32 b:u32? c:pred", barrier, all, "9.7.13.1"},
    {"barrier", "[.cta].red{.and,.or}[.aligned].pred", "d:pred a:u32 b:u32? c:pred", barrier, all, "9.7.13.1"},
    {"bar", ".warp.sync", "m:mask", barrier, none, "9.7.13.2"},
    {"membar", "{.cta,.gl,.sys}", "", barrier, none, "9.7.13.4"},
    {"fence", "[.sc,.acq_rel,.acquire,.release]{.cta,.cluster,.gpu,.sys}", "", barrier, none, "9.7.13.4"},
    // Proxies are ways to memory that the virtual machine does not have; all accesses go one way.
    {"fence", ".proxy.alias", "", barrier, none, "9.7.13.4"},
    {"fence", ".proxy.async[.global,.shared::cta,.shared::cluster]", "", barrier, none, "9.7.13.4"},
    {"fence", ".mbarrier_init.release.cluster", "", barrier, none, "9.7.13.4"},

    {"vote", "{.all,.any,.uni}.pred", "d:pred a:pred", alu, vote, "9.7.13.8"},
    {"vote", ".ballot.b32", "d:b32 a:pred", alu, vote, "9.7.13.8"},
    {"vote", ".sync{.all,.any,.uni}.pred", "d:pred a:pred m:mask", alu, vote, "9.7.13.9"},
    {"vote", ".sync.ballot.b32", "d:b32 a:pred m:mask", alu, vote, "9.7.13.9"},
    {"match", ".any.sync{.b32,.b64}", "d:b32 a:T m:mask", alu, vote, "9.7.13.10"},
    {"match", ".all.sync{.b32,.b64}", "d:b32|e:pred a:T m:mask", alu, vote, "9.7.13.10"},
    {"activemask", ".b32", "d:b32", alu, none, "9.7.13.11"},
    {"redux", ".sync{.add,.min,.max}{.u32,.s32}", "d:T a:T m:mask", alu, vote, "9.7.13.12"},
    {"redux", ".sync{.and,.or,.xor}.b32", "d:T a:T m:mask", alu, vote, "9.7.13.12"},
    {"griddepcontrol", "{.launch_dependents,.wait}", "", control, none, "9.7.13.13"},
    {"elect", ".sync", "d:b32|e:pred m:mask", uniform, none, "9.7.13.14"},

    {"brkpt", "", "", control, none, "9.7.19.1"},
    {"nanosleep", ".u32", "a:u32", control, none, "9.7.19.2"},
    {"trap", "", "", control, none, "9.7.19.4"},
    {"setmaxnreg", "{.inc,.dec}.sync.aligned.u32", "imm:immediate", control, none, "9.7.19.5"},
};

}  // namespace

std::span<const OpRow> control_rows() {
  return rows;
}

}  // namespace flashmoe::vgpu::ir
