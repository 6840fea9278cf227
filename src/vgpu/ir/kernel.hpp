// What exec runs: one entry function with everything it can call, decoded once. Registers are slots of 32 lanes x 32
// bits; a 64-bit register is two slots in a row (32 x 64 bits), 16-bit values lie zero-extended in a 32-bit slot,
// predicates are lane masks in an array of their own. Immediates and addresses of symbols are slots too, filled when a
// frame begins, so an op sees registers only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vgpu/ir/form.hpp"
#include "vgpu/ir/signature.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::exec {
struct Warp;
}

namespace flashmoe::vgpu::ir {

struct Inst;
using Handler = void (*)(exec::Warp&, const Inst&);

inline constexpr std::uint32_t no_slot = 0xffffffffu;

// How operands lie in it, by kind of op:
//   d = op a, b, c       slots; a predicate operand is its index in the predicate array. `p|q`: d and e.
//                        `m` is the membermask of shfl.sync, vote.sync, match.sync, redux.sync, bar.warp.sync.
//                        A destination `_` (shfl, setp, elect) is no_slot.
//   vectors, mma         `list` points into Kernel::lists: the elements of all operands in the order written, `_` is
//                        no_slot. mov.b64 {x, y}, d and back, ld.v4, st.v4, ldmatrix, mma: counts follow from the form.
//                        Then d/a/b/c hold the operands that are no vectors (address in a).
//   ld, atom, ldmatrix   address: slot `a` (64-bit slots when wide_address, else 32-bit) + imm. A symbol's address is
//                        all in imm and a is no_slot. atom: operands b and c.
//   st, red, stmatrix    address a + imm, value b (or list), red: b, c
//   cp.async             destination a + imm, source b + imm2 (b_wide), bytes in `size`, source size in c or no_slot,
//                        ignore-src predicate in e or no_slot
//   bar, barrier         barrier number in slot a, thread count in b or no_slot; bar.red: d, predicate in c
//   bra                  `target` is the pc; exec holds the lanes that take it.
//   brx                  index in a, targets in list (count first)
//   call                 function index in `target` (no_slot: indirect, the callee's Function::address in slot a).
//                        list: {returns, arguments, then for each of them, returns first: offset in the caller's area,
//                        offset in the callee's area, bytes}. An area is what Frame::parameters holds per lane: the
//                        function's own parameters at 0, its call area from parameter_bytes on. ld.param and st.param
//                        with frame_parameter address the same area by imm.
//   ld.local, st.local   a no_slot: imm counts from the frame's first .local byte; else slot a holds an address that
//                        came from a Constant with `local` (or cvta.to.local)
//   mov from a special register   Form::reads_special, `special` says which, `imm` the number of %envreg
//   four sources         the last one in m: bfi's length; the predicate q of lop3.BoolOp
//   add.cc, addc, ...    carry out: predicate e; carry in: predicate m
//   lop3, wait_group     the immediate itself (immLut, N) in imm
//   mbarrier             address a + imm; state or p in d; count, state or phase in b; try_wait's hint in c
//   cache policies       checked and left out
//   !p                   not_c when it is c; elsewhere lowering puts a not.pred before
// Lowering adds instructions of its own, opcode "vgpu":
//   vgpu.reconverge      at the immediate post-dominator of branches; the branch holds its pc in `imm` (-1: none)
//   vgpu.converge        before every .sync op (same guard): the lanes in slot `m` (no_slot: all that have not exited)
//                        must be here together before the op behind it runs
struct Inst {
  Handler run = nullptr;
  std::uint32_t d = no_slot, e = no_slot, a = no_slot, b = no_slot, c = no_slot, m = no_slot;
  std::uint32_t list = no_slot;
  std::uint32_t target = no_slot;
  std::int64_t imm = 0, imm2 = 0;
  std::uint16_t size = 0;     // bytes a lane moves in memory, all vector elements together
  std::uint16_t special = 0;  // ir::Special
  std::uint16_t guard = 0;    // predicate index + 1; 0: no guard
  bool guard_negated = false;
  bool not_c = false;  // !c where c is a predicate source
  bool wide_address = false, b_wide = false;
  bool frame_parameter = false;  // ld.param/st.param: the frame's own area, not the kernel's parameter buffer
  bool runs_empty = false;       // run also when no lane passes the guard (bra, reconverge)
  bool is_instruction = true;    // not made by lowering: InstInfo::is_pseudo for who counts
};

enum class Special : std::uint16_t {
  none,
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock64,
  clock_hi,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
  dynamic_smem_size,
  total_smem_size,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  reserved_smem_offset,
  envreg,
};

// The unit an instruction would occupy on the device; counters sum by it.
enum class Pipe : std::uint8_t { alu, fma, fp64, half, xu, lsu, tensor, uniform, control, barrier, async_copy };
[[nodiscard]] std::string_view name_of(Pipe pipe);

// How uninitialised bits pass through.
enum class PoisonRule : std::uint8_t {
  any_to_all,  // one undefined bit of a lane's sources makes the lane's result undefined
  move,        // bit for bit: mov, pack, unpack, shfl, prmt, cvt between integers of known width
  bitwise,     // and/or/xor/not/shift: exact where the other operand is known
  select,      // selp, slct: only the chosen source counts, and the predicate
  load,
  store,
  atomic,
  async_copy,
  matrix_load,      // ldmatrix, movmatrix, stmatrix
  matrix_multiply,  // exact per row and column
  vote,             // vote, match, activemask, redux: all member lanes count
  none,             // defines its result whatever came in: special registers, clock, constants
};

// Beside each Inst, for diagnostics, counters and the verifier; never touched by a fast run.
struct InstInfo {
  Form form{};
  ptx::Location at{};   // in the PTX text
  int source_file = 0;  // index into Kernel::files; 0: unknown
  int source_line = 0;
  std::string inlined{};  // "softmax.cuh:41 in row_max, inlined at kernel.cu:88"; empty when not inlined
  std::string text{};     // the instruction as printed
  Pipe pipe = Pipe::alu;
  PoisonRule poison = PoisonRule::any_to_all;
  std::vector<std::uint32_t> reads{}, writes{};                        // slots, two for a wide register
  std::vector<std::uint32_t> read_predicates{}, written_predicates{};  // indices; the guard is in read_predicates
  bool is_pseudo = false;  // made by lowering (reconverge, entry): counted as no instruction
};

struct Constant {
  std::uint32_t slot = 0;
  std::uint64_t bits = 0;
  bool wide = false;
  bool local = false;  // address of a .local variable: the frame's place in local memory is added
};

struct Parameter {
  std::string name{};
  std::uint32_t offset = 0, bytes = 0, align = 1;
};

struct Function {
  std::string name{};
  std::uint32_t entry = 0;                  // pc
  std::uint32_t slots = 0, predicates = 0;  // of one frame
  std::uint32_t parameter_bytes = 0;        // per lane, of the callee's own .param area (returns, then arguments)
  std::uint32_t call_area_bytes = 0;        // per lane: .param variables declared in the body for calls it makes
  std::uint32_t local_bytes = 0;            // per lane: .local variables
  std::vector<Constant> constants{};
  std::vector<std::uint32_t> true_predicates{};  // predicate indices that hold the constant true
  std::uint64_t address = 0;                     // what its taken address holds; 0: never taken
  std::string builtin{};                         // "vprintf", "__assertfail", "malloc", "free": no code, exec runs it
  Signature signature{};                         // an indirect call must pass just this
  std::uint32_t stack_bytes = 0;                 // per thread, of one activation (stack.hpp)
};

struct SharedArray {  // a .shared variable with a size of its own
  std::string name{};
  std::uint32_t offset = 0, bytes = 0;
};

struct Kernel {
  std::string name{};
  std::vector<Inst> code{};
  std::vector<InstInfo> info{};  // as long as code
  std::vector<std::uint32_t> lists{};
  std::vector<Function> functions{};    // [0] is the entry
  std::vector<Parameter> parameters{};  // of the entry, in its parameter buffer
  std::uint32_t parameter_bytes = 0;
  std::uint32_t stack_bytes = 0;  // per thread, of the deepest calls that can be known: each function once
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_offset = 0;  // where extern __shared__ begins, aligned
  // Of checked runs: their arrays stand apart. The two figures above stay a device's.
  std::vector<SharedArray> shared_arrays{};       // by offset; empty: they stand side by side
  std::uint32_t red_zone_bytes = 0;               // by which extern __shared__ begins later
  std::uint32_t max_threads = 0;                  // .maxntid product; 0: not given
  std::uint32_t required_threads[3] = {0, 0, 0};  // .reqntid; 0: not given
  int min_ctas_per_sm = 0, max_registers = 0;
  std::vector<std::string> files{};  // by the index of .file; [0] is empty
  std::string module_name{};
};

}  // namespace flashmoe::vgpu::ir
