#include "vgpu/micro/random_kernel.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "vgpu/micro/values.hpp"

namespace flashmoe::vgpu::micro {

namespace {

constexpr int most_depth = 3, most_statements = 48, narrow = 8, wide = 4, halves = 4, predicates = 4;
constexpr std::uint32_t input_stride = 128, output_stride = 192;

// In each template R, D, H, P stand for a register of 32, 64, 16 bits and a predicate; I for a literal; F marks an f32
// result whose NaN is made canonical afterwards, G an f64, X an f16x2 one.
constexpr std::string_view plain[] = {
    "add.s32 R, R, R",
    "sub.u32 R, R, R",
    "mul.lo.s32 R, R, R",
    "mul.hi.u32 R, R, R",
    "mul.hi.s32 R, R, R",
    "mad.lo.s32 R, R, R, R",
    "mad.hi.u32 R, R, R, R",
    "min.s32 R, R, R",
    "max.u32 R, R, R",
    "abs.s32 R, R",
    "neg.s32 R, R",
    "sad.s32 R, R, R, R",
    "add.sat.s32 R, R, R",
    "sub.sat.s32 R, R, R",
    "and.b32 R, R, R",
    "or.b32 R, R, I",
    "xor.b32 R, R, R",
    "not.b32 R, R",
    "cnot.b32 R, R",
    "shl.b32 R, R, R",
    "shr.s32 R, R, R",
    "shr.u32 R, R, I",
    "shf.l.wrap.b32 R, R, R, R",
    "shf.r.clamp.b32 R, R, R, R",
    "lop3.b32 R, R, R, R, 0x96",
    "lop3.b32 R, R, R, R, 0xe8",
    "prmt.b32 R, R, R, R",
    "prmt.b32 R, R, R, I",
    "popc.b32 R, R",
    "clz.b32 R, R",
    "brev.b32 R, R",
    "bfind.s32 R, R",
    "bfind.shiftamt.u32 R, R",
    "dp4a.s32.u32 R, R, R, R",
    "dp2a.lo.u32.s32 R, R, R, R",
    "bfe.s32 R, R, 5, 11",
    "bfi.b32 R, R, R, 7, 9",
    "selp.b32 R, R, R, P",
    "slct.b32.s32 R, R, R, R",
    "set.lt.u32.s32 R, R, R",
    "setp.lt.s32 P, R, R",
    "setp.ge.u32 P, R, I",
    "setp.eq.s32 P|P, R, R",
    "setp.ne.and.b32 P, R, R, P",
    "setp.gtu.f32 P, R, R",
    "setp.lt.ftz.f32 P|P, R, R",
    "setp.num.f64 P, D, D",
    "setp.hi.or.u64 P, D, D, !P",
    "setp.ltu.f16 P, H, H",
    "and.pred P, P, P",
    "xor.pred P, P, P",
    "not.pred P, P",
    "mov.b32 R, R",
    "mov.b64 D, D",
    "mov.pred P, P",
    "mov.u32 R, %laneid",
    "mov.b64 D, {R, R}",
    "mov.b32 R, {H, H}",
    "add.s64 D, D, D",
    "sub.s64 D, D, D",
    "mul.lo.s64 D, D, D",
    "mul.hi.s64 D, D, D",
    "mul.hi.u64 D, D, D",
    "mad.lo.u64 D, D, D, D",
    "mul.wide.s32 D, R, R",
    "mul.wide.u32 D, R, R",
    "mad.wide.s32 D, R, R, D",
    "mul.wide.s16 R, H, H",
    "min.u64 D, D, D",
    "max.s64 D, D, D",
    "and.b64 D, D, D",
    "xor.b64 D, D, D",
    "shl.b64 D, D, R",
    "shr.s64 D, D, R",
    "popc.b64 R, D",
    "clz.b64 R, D",
    "brev.b64 D, D",
    "bfe.u64 D, D, 9, 40",
    "selp.b64 D, D, D, P",
    "add.u16 H, H, H",
    "sub.s16 H, H, H",
    "mul.lo.u16 H, H, H",
    "mul.hi.s16 H, H, H",
    "mad.lo.s16 H, H, H, H",
    "max.s16 H, H, H",
    "shr.s16 H, H, R",
    "shl.b16 H, H, R",
    "and.b16 H, H, H",
    "selp.b16 H, H, H, P",
    "cvt.s32.s16 R, H",
    "cvt.u32.u16 R, H",
    "cvt.u16.u32 H, R",
    "cvt.s64.s32 D, R",
    "cvt.u64.u32 D, R",
    "cvt.u32.u64 R, D",
    "cvt.sat.s8.s32 R, R",
    "cvt.s32.s8 R, R",
    "cvt.u8.u32 R, R",
    "cvt.sat.u16.s32 H, R",
    "cvt.rzi.s32.f32 R, R",
    "cvt.rni.ftz.u32.f32 R, R",
    "cvt.rmi.s64.f32 D, R",
    "cvt.rpi.s32.f64 R, D",
    "cvt.rn.f32.s32 R, R",
    "cvt.rz.f32.u32 R, R",
    "cvt.rp.f32.s64 R, D",
    "cvt.rn.f64.u64 D, D",
    "cvt.rn.f16.s32 H, R",
    "testp.normal.f32 P, R",
    "testp.notanumber.f64 P, D",
    "F add.f32 R, R, R",
    "F add.ftz.f32 R, R, R",
    "F sub.rz.f32 R, R, R",
    "F mul.f32 R, R, R",
    "F mul.ftz.sat.f32 R, R, R",
    "F mul.rp.f32 R, R, R",
    "F fma.rn.f32 R, R, R, R",
    "F fma.rn.ftz.f32 R, R, R, R",
    "F fma.rm.f32 R, R, R, R",
    "F min.f32 R, R, R",
    "F max.ftz.f32 R, R, R",
    "F max.NaN.f32 R, R, R",
    "F abs.f32 R, R",
    "F neg.ftz.f32 R, R",
    "F cvt.f32.f16 R, H",
    "F cvt.rni.f32.f32 R, R",
    "F cvt.rn.f32.f64 R, D",
    "F sqrt.rn.f32 R, R",
    "F div.rn.f32 R, R, R",
    "F rcp.rn.ftz.f32 R, R",
    "F copysign.f32 R, R, R",
    "G add.f64 D, D, D",
    "G mul.rz.f64 D, D, D",
    "G fma.rn.f64 D, D, D, D",
    "G cvt.f64.f32 D, R",
    "G min.f64 D, D, D",
    "X add.f16x2 R, R, R",
    "X mul.ftz.f16x2 R, R, R",
    "X fma.rn.f16x2 R, R, R, R",
    "X fma.rn.relu.f16x2 R, R, R, R",
    "X cvt.rn.f16x2.f32 R, R, R",
    "X min.f16x2 R, R, R",
    "X neg.f16x2 R, R",
    "X sub.sat.f16x2 R, R, R",
    // Divisors are made positive and odd first.
    "and.b32 %t0, R, 0x7fff; or.b32 %t0, %t0, 1; div.s32 R, R, %t0",
    "or.b32 %t0, R, 1; rem.u32 R, R, %t0",
    "or.b32 %t0, R, 1; div.u32 R, R, %t0",
    "and.b32 %t0, R, 0x7fff; or.b32 %t0, %t0, 1; cvt.u64.u32 %t1, %t0; rem.s64 D, D, %t1",
    // The carry flag lives from one instruction to the next only.
    "add.cc.u32 R, R, R; addc.cc.u32 R, R, R; addc.u32 R, R, 0",
    "sub.cc.u32 R, R, R; subc.u32 R, R, R",
    "mad.lo.cc.u32 R, R, R, R; madc.hi.u32 R, R, R, R",
};

// Memory of the thread's own: 64 bytes each in the results, in shared and in local memory.
constexpr std::string_view memory[] = {
    "st.global.b32 [%own+A], R",
    "ld.global.b32 R, [%own+A]",
    "st.global.b64 [%own+B], D",
    "ld.global.b64 D, [%own+B]",
    "ld.global.s8 R, [%own+C]",
    "st.global.u8 [%own+C], R",
    "ld.global.u16 R, [%own+E]",
    "ld.global.v2.b32 {R, R}, [%own+B]",
    "st.shared.b32 [%mine+A], R",
    "ld.shared.b32 R, [%mine+A]",
    "st.shared.v2.b32 [%mine+B], {R, R}",
    "ld.shared.s16 R, [%mine+E]",
    "ld.shared.b64 D, [%mine+B]",
    "st.local.b32 [%depot+A], R",
    "ld.local.b32 R, [%depot+A]",
    "st.local.b64 [%depot+B], D",
    "ld.local.u8 R, [%depot+C]",
    "atom.shared.add.u32 R, [%mine+A], R",
    "atom.global.xor.b32 R, [%own+A], R",
    "red.shared.max.s32 [%mine+A], R",
    "atom.global.cas.b32 R, [%own+A], R, R",
    "and.b32 %t0, R, 15; shl.b32 %t0, %t0, 2; add.u32 %t0, %t0, %mine; ld.shared.b32 R, [%t0]",
    "and.b32 %t0, R, 7; mul.wide.u32 %t1, %t0, 8; add.u64 %t1, %t1, %own; st.b64 [%t1], D",
    "and.b32 %t0, R, 7; mul.wide.u32 %t1, %t0, 8; add.u64 %t1, %t1, %depot; ld.local.b64 D, [%t1]",
};

// Only where every thread of the block passes.
constexpr std::string_view together[] = {
    "shfl.sync.bfly.b32 R, R, I, 0x1f, -1",
    "shfl.sync.idx.b32 R|P, R, R, 0x1f, -1",
    "shfl.sync.up.b32 R|P, R, 3, 0, -1",
    "shfl.sync.down.b32 R, R, R, 0x101f, -1",
    "shfl.sync.idx.b32 R, R, R, 0x181f, -1",
    "vote.sync.ballot.b32 R, P, -1",
    "vote.sync.any.pred P, !P, -1",
    "vote.sync.all.pred P, P, -1",
    "redux.sync.add.s32 R, R, -1",
    "redux.sync.max.u32 R, R, -1",
    "redux.sync.xor.b32 R, R, -1",
    "match.any.sync.b32 R, R, -1",
    "bar.sync 0; ld.shared.b32 R, [%theirs+A]; bar.sync 0",
    "bar.red.popc.u32 R, 1, P",
    "bar.warp.sync -1; activemask.b32 R",  // lanes that parted earlier need not have met again by themselves
    "bar.red.or.pred P, 2, P",
};

class Source {
 public:
  explicit Source(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return at_ >= bytes_.size(); }
  std::uint32_t below(std::size_t n) {
    const std::uint32_t byte = empty() ? 0 : bytes_[at_++];
    return byte % static_cast<std::uint32_t>(n);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

class Generator {
 public:
  explicit Generator(std::span<const std::uint8_t> bytes) : source_(bytes) {}

  MicroKernel run() {
    MicroKernel kernel;
    kernel.form = "random kernel";
    kernel.threads = source_.below(4) == 0 ? 64 : 32;
    kernel.input_stride = input_stride;
    kernel.output_stride = output_stride;
    Random random(source_.below(256) * 256 + source_.below(256));
    static const char* types[] = {"u32", "f32", "f16x2", "f64"};
    for (std::uint32_t i = 0; i < kernel.threads * input_stride / 8; ++i) {
      const std::uint64_t low = any_value(types[random() % 3], random), high = any_value(types[random() % 3], random);
      const std::uint64_t word = random() % 4 == 0 ? any_value("f64", random) : high << 32 | low;
      kernel.input.resize(kernel.input.size() + 8);
      std::memcpy(kernel.input.data() + kernel.input.size() - 8, &word, 8);
    }
    while (!source_.empty() && statements_ < most_statements) statement(0, true);
    kernel.text = text();
    return kernel;
  }

 private:
  std::string reg(char kind) {
    switch (kind) {
      case 'R':
        return fmt::format("%r{}", source_.below(narrow));
      case 'D':
        return fmt::format("%d{}", source_.below(wide));
      case 'H':
        return fmt::format("%h{}", source_.below(halves));
      case 'P':
        return fmt::format("%p{}", source_.below(predicates));
      case 'A':
        return std::to_string(4 * source_.below(16));
      case 'B':
        return std::to_string(8 * source_.below(8));
      case 'C':
        return std::to_string(source_.below(64));
      case 'E':
        return std::to_string(2 * source_.below(32));
      default:
        return fmt::format("0x{:x}", source_.below(256) * 0x01030107u);
    }
  }

  // Fills the registers in; the first one is what the instruction writes.
  std::string fill(std::string_view pattern, std::string& first) {
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const char c = pattern[i];
      const bool alone = (i == 0 || std::strchr(" ,{[|!+", pattern[i - 1]) != nullptr) &&
                         (i + 1 == pattern.size() || std::strchr(" ,;}]|", pattern[i + 1]) != nullptr);
      if (!alone || std::strchr("RDHPABCEI", c) == nullptr) {
        out += c;
        continue;
      }
      std::string name = reg(c);
      // Two destinations of one instruction are two registers.
      if (i > 0 &&
          (pattern[i - 1] == '|' ||
           (pattern[i - 1] == ' ' && i > 1 && pattern[i - 2] == ',' && in_braces(pattern, i))) &&
          name == first)
        name = fmt::format("%{}{}", name[1], (name[2] - '0' + 1) % (c == 'R' ? narrow : 4));
      if (first.empty()) first = name;
      out += name;
    }
    return out;
  }
  static bool in_braces(std::string_view pattern, std::size_t at) {
    const std::size_t open = pattern.rfind('{', at), close = pattern.rfind('}', at);
    return open != std::string_view::npos && (close == std::string_view::npos || close < open);
  }

  void line(const std::string& code) { body_ += "  " + code + "\n"; }

  template <std::size_t N>
  void simple(const std::string_view (&patterns)[N], bool may_guard) {
    std::string_view pattern = patterns[source_.below(N)];
    char repair = 0;
    if (pattern.size() > 2 && pattern[1] == ' ') {
      repair = pattern[0];
      pattern.remove_prefix(2);
    }
    std::string first;
    std::string code = fill(pattern, first);
    const bool one = pattern.find(';') == std::string_view::npos;
    if (may_guard && one && source_.below(5) == 0)
      code = fmt::format("@{}%p{} {}", source_.below(2) == 0 ? "!" : "", source_.below(predicates), code);
    line(code + ";");
    if (repair == 'F') line(fmt::format("setp.nan.f32 %q0, {0}, {0}; @%q0 mov.b32 {0}, 0x7fffffff;", first));
    if (repair == 'G') line(fmt::format("setp.nan.f64 %q0, {0}, {0}; @%q0 mov.b64 {0}, 0x7fffffffffffffff;", first));
    if (repair == 'X')
      line(
          fmt::format("mov.b32 {{%t2, %t3}}, {0}; setp.nan.f16 %q0, %t2, %t2; @%q0 mov.b16 %t2, 0x7fff; "
                      "setp.nan.f16 %q0, %t3, %t3; @%q0 mov.b16 %t3, 0x7fff; mov.b32 {0}, {{%t2, %t3}};",
                      first));
  }

  void block(int depth, bool uniform) {
    const std::uint32_t count = 1 + source_.below(4);
    for (std::uint32_t i = 0; i < count && statements_ < most_statements; ++i) statement(depth, uniform);
  }

  void statement(int depth, bool uniform) {
    ++statements_;
    const std::uint32_t choice = source_.below(20);
    if (choice >= 17 && depth < most_depth) {
      if (choice == 17) return branch(depth, uniform);
      if (choice == 18) return loop(depth, uniform);
      return source_.below(2) == 0 ? table(depth) : call();
    }
    if (choice >= 15 && uniform) return simple(together, false);
    if (choice >= 12) return simple(memory, true);
    simple(plain, true);
  }

  void branch(int depth, bool uniform) {
    const int id = labels_++;
    // A branch on what the vote agreed on keeps the threads of a warp together, but not the warps.
    static_cast<void>(uniform);
    line(fmt::format("@%p{} bra else{};", source_.below(predicates), id));
    block(depth + 1, false);
    if (source_.below(2) == 0) {
      line(fmt::format("bra.uni end{};", id));
      body_ += fmt::format("else{}:\n", id);
      block(depth + 1, false);
      body_ += fmt::format("end{}:\n", id);
    } else {
      body_ += fmt::format("else{}:\n", id);
    }
  }

  void loop(int depth, bool uniform) {
    const int id = labels_++;
    const bool constant = source_.below(2) == 0;
    if (constant)
      line(fmt::format("mov.u32 %c{}, {};", depth, 1 + source_.below(4)));
    else
      line(fmt::format("and.b32 %c{0}, %r{1}, 3; add.u32 %c{0}, %c{0}, 1;", depth, source_.below(narrow)));
    body_ += fmt::format("loop{}:\n", id);
    const bool leaves = source_.below(3) == 0;
    block(depth + 1, uniform && constant && !leaves);
    if (leaves) line(fmt::format("@%p{} bra out{};", source_.below(predicates), id));
    line(fmt::format("sub.u32 %c{0}, %c{0}, 1; setp.ne.u32 %q0, %c{0}, 0; @%q0 bra loop{1};", depth, id));
    if (leaves) body_ += fmt::format("out{}:\n", id);
  }

  void table(int depth) {
    const int id = labels_++;
    line(fmt::format("and.b32 %t0, %r{}, 3;", source_.below(narrow)));
    line(fmt::format("ways{0}: .branchtargets a{0}, b{0}, c{0}, a{0};", id));
    line(fmt::format("brx.idx %t0, ways{};", id));
    body_ += fmt::format("a{}:\n", id);
    block(depth + 1, false);
    line(fmt::format("bra.uni meet{};", id));
    body_ += fmt::format("b{}:\n", id);
    block(depth + 1, false);  // falls through
    body_ += fmt::format("c{}:\n", id);
    block(depth + 1, false);
    body_ += fmt::format("meet{}:\n", id);
  }

  void call() {
    line(fmt::format("{{ .param .b32 a; .param .b32 b; .param .b64 c; st.param.b32 [a], %r{}; st.param.b32 [b], %r{};",
                     source_.below(narrow), source_.below(narrow)));
    line(fmt::format("call (c), mix, (a, b); ld.param.b64 %d{}, [c]; }}", source_.below(wide)));
  }

  std::string text() const {
    std::string setup, finish;
    for (int i = 0; i < narrow; ++i) {
      setup += fmt::format("  ld.global.b32 %r{0}, [%in+{1}];\n", i, 4 * i);
      finish += fmt::format("  st.global.b32 [%out+{1}], %r{0};\n", i, 4 * i);
    }
    for (int i = 0; i < wide; ++i) {
      setup += fmt::format("  ld.global.b64 %d{0}, [%in+{1}];\n", i, 32 + 8 * i);
      finish += fmt::format("  st.global.b64 [%out+{1}], %d{0};\n", i, 32 + 8 * i);
    }
    for (int i = 0; i < halves; ++i) {
      setup += fmt::format("  ld.global.b16 %h{0}, [%in+{1}];\n", i, 64 + 2 * i);
      finish += fmt::format("  st.global.b16 [%out+{1}], %h{0};\n", i, 64 + 2 * i);
    }
    for (int i = 0; i < predicates; ++i) {
      setup +=
          fmt::format("  ld.global.u8 %t0, [%in+{1}]; and.b32 %t0, %t0, 1; setp.eq.u32 %p{0}, %t0, 1;\n", i, 72 + i);
      finish += fmt::format("  selp.b32 %t0, 1, 0, %p{0}; st.global.u8 [%out+{1}], %t0;\n", i, 72 + i);
    }
    for (int i = 0; i < 64; i += 8) {
      setup += fmt::format("  st.shared.b64 [%mine+{0}], %d1; st.local.b64 [%depot+{0}], %d2;\n", i);
      finish += fmt::format(
          "  ld.shared.b64 %d0, [%mine+{0}]; ld.local.b64 %d1, [%depot+{0}]; xor.b64 %d2, %d2, %d0; "
          "mad.lo.u64 %d3, %d3, 0x10001, %d1;\n",
          i);
    }
    finish += "  st.global.b64 [%out+80], %d2; st.global.b64 [%out+88], %d3;\n";
    return fmt::format(
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        ".func (.param .b64 c) mix(.param .b32 a, .param .b32 b) {{\n"
        "  .reg .b32 %x, %y; .reg .b64 %z; .reg .pred %p;\n  ld.param.b32 %x, [a]; ld.param.b32 %y, [b];\n"
        "  mul.wide.u32 %z, %x, %y; setp.lt.s32 %p, %x, %y; @%p bra less;\n  not.b64 %z, %z; st.param.b64 [c], %z; "
        "ret;\n"
        "less: add.u64 %z, %z, 77; st.param.b64 [c], %z; ret;\n}}\n"
        ".visible .entry k(.param .u64 inputs, .param .u64 results) {{\n"
        "  .reg .b32 %r<8>, %t0, %c<4>, %mine, %theirs, %thread;\n  .reg .b64 %d<4>, %in, %out, %own, %depot, %t1;\n"
        "  .reg .b16 %h<4>, %t2, %t3;\n  .reg .pred %p<4>, %q0;\n"
        "  .shared .align 8 .b8 tile[4096];\n  .local .align 8 .b8 stack[64];\n"
        "  ld.param.u64 %in, [inputs]; ld.param.u64 %out, [results]; mov.u32 %thread, %tid.x;\n"
        "  mad.wide.u32 %in, %thread, {}, %in; mad.wide.u32 %out, %thread, {}, %out; add.u64 %own, %out, 96;\n"
        "  mov.u32 %t0, tile; mad.lo.u32 %mine, %thread, 64, %t0; xor.b32 %theirs, %thread, 1;\n"
        "  mad.lo.u32 %theirs, %theirs, 64, %t0; mov.u64 %depot, stack;\n{}{}{}  ret;\n}}\n",
        input_stride, output_stride, setup, body_, finish);
  }

  Source source_;
  std::string body_{};
  int labels_ = 0, statements_ = 0;
};

}  // namespace

MicroKernel random_kernel(std::span<const std::uint8_t> bytes) {
  return Generator(bytes).run();
}

}  // namespace flashmoe::vgpu::micro
