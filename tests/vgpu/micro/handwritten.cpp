#include "vgpu/micro/handwritten.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "vgpu/micro/memory_forms.hpp"
#include "vgpu/micro/writer.hpp"
#include "vgpu/oracle/program.hpp"

namespace flashmoe::vgpu::micro {

namespace {

using Make = void (*)(Writer&, const FormText&);

std::string random_word(Writer& w, int bits = 32) {
  return w.input(bits, [&w] { return w.random()(); });
}

void result(Writer& w, const std::string& reg, int bits = 32) {
  w.output(reg, bits, {0, "b" + std::to_string(bits), {}});
}

// Odd and even lanes go different ways, one of them in a loop whose length depends on the lane.
void branch(Writer& w, const FormText& form) {
  const std::string x = random_word(w), n = w.fresh(32), p = w.fresh(1);
  if (form.has("uni")) {
    w.line(fmt::format("mov.b32 {}, 0;", n));
    w.line("again:");
    w.line(fmt::format("mad.lo.u32 {0}, {0}, 3, {1}; add.u32 {1}, {1}, 1; setp.lt.u32 {2}, {1}, 5;", x, n, p));
    w.line(fmt::format("@{} {} again;", p, form.text));
  } else {
    w.line(fmt::format("and.b32 {}, {}, 7; setp.gt.u32 {}, {}, 3;", n, x, p, n));
    w.line(fmt::format("@!{} {} small;", p, form.text));
    w.line("loop:");
    w.line(fmt::format("mad.lo.u32 {0}, {0}, 5, {1}; sub.u32 {1}, {1}, 1; setp.ne.u32 {2}, {1}, 0;", x, n, p));
    w.line(fmt::format("@{} {} loop;", p, form.text));
    w.line(fmt::format("{} done;", form.text));
    w.line(fmt::format("small: not.b32 {0}, {0};", x));
    w.line("done:");
  }
  result(w, x);
}

void branch_table(Writer& w, const FormText& form) {
  const std::string x = random_word(w), index = w.fresh(32);
  w.line(fmt::format("{} {}, {}{};", form.has("uni") ? "mov.b32" : "and.b32", index, form.has("uni") ? "2" : x,
                     form.has("uni") ? "" : ", 3"));
  w.line("ways: .branchtargets first, second, third, fourth;");
  w.line(fmt::format("{} {}, ways;", form.text, index));
  w.line(fmt::format("first: add.u32 {0}, {0}, 11; bra.uni meet;", x));
  w.line(fmt::format("second: mul.lo.u32 {0}, {0}, 13;", x));
  w.line(fmt::format("third: xor.b32 {0}, {0}, 0x5555; bra.uni meet;", x));
  w.line(fmt::format("fourth: not.b32 {0}, {0};", x));
  w.line("meet:");
  result(w, x);
}

// Recursion, arguments and results by value, under divergence.
void call(Writer& w, const FormText& form) {
  w.module(
      fmt::format(".func (.param .b32 back) triangle(.param .b32 given) {{\n  .reg .b32 %n, %m, %s; .reg .pred %p;\n"
                  "  ld.param.b32 %n, [given]; setp.eq.u32 %p, %n, 0; @%p bra none;\n"
                  "  sub.u32 %m, %n, 1;\n  {{ .param .b32 a; .param .b32 b;\n  st.param.b32 [a], %m;\n"
                  "  {} (b), triangle, (a);\n  ld.param.b32 %s, [b];\n  }}\n  add.u32 %n, %n, %s;\n"
                  "none: st.param.b32 [back], %n; ret;\n}}",
                  form.has("uni") ? "call" : form.text));
  const std::string x = random_word(w), p = w.fresh(1);
  w.line(fmt::format("and.b32 {0}, {0}, 7;", x));
  if (!form.has("uni")) w.line(fmt::format("setp.eq.u32 {}, {}, 3; @{} bra past;", p, x, p));
  w.line(fmt::format(
      "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {0}; {1} (b), triangle, (a); ld.param.b32 {0}, [b]; }}", x,
      form.text));
  w.line("past:");
  result(w, x);
}

void give_back(Writer& w, const FormText& form) {
  w.module(fmt::format(
      ".func (.param .b32 back) half(.param .b32 given) {{\n  .reg .b32 %n; .reg .pred %p;\n"
      "  ld.param.b32 %n, [given]; st.param.b32 [back], %n;\n{}"
      "  shr.u32 %n, %n, 1; st.param.b32 [back], %n; {};\n}}",
      form.has("uni") ? "" : "  and.b32 %n, %n, 1; setp.eq.u32 %p, %n, 1; @%p ret; ld.param.b32 %n, [given];\n",
      form.text));
  const std::string x = random_word(w);
  w.line(fmt::format(
      "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {0}; call.uni (b), half, (a); ld.param.b32 {0}, [b]; }}", x));
  result(w, x);
}

void leave(Writer& w, const FormText& form) {
  const std::string x = random_word(w), bit = w.fresh(32), p = w.fresh(1);
  result(w, x);
  w.line(fmt::format("and.b32 {}, {}, 3; setp.eq.u32 {}, {}, 1; @{} {};", bit, x, p, bit, p, form.text));
  w.line(fmt::format("not.b32 {0}, {0};", x));
  result(w, x);
}

// Threads write, meet, and read what a thread of the other warp wrote.
void barrier(Writer& w, const FormText& form) {
  w.shared(".shared .align 8 .b8 tile[256];");
  const std::string x = random_word(w), mine = w.fresh(32), other = w.fresh(32), y = w.fresh(32), p = w.fresh(1),
                    q = w.fresh(1);
  w.line(fmt::format(
      "mov.u32 {0}, tile; mad.lo.u32 {1}, %thread, 4, {0}; xor.b32 {2}, %thread, 33; mad.lo.u32 {2}, {2}, 4, {0};", y,
      mine, other));
  w.line(fmt::format("st.shared.b32 [{}], {};", mine, x));
  w.line(fmt::format("and.b32 {0}, {1}, 1; setp.eq.u32 {2}, {0}, 1;", y, x, p));
  const std::string aligned = form.opcode == "barrier" ? "barrier.sync" : "bar.sync";
  if (form.has("arrive")) {
    // Warp 1 arrives at barrier 3 without waiting; warp 0 waits there and reads what warp 1 wrote.
    w.line(fmt::format("setp.ge.u32 {}, %thread, 32; @{} bra producer;", q, q));
    w.line(fmt::format("{} 3, 64; bra read;", aligned));
    w.line(fmt::format("producer: {} 3, 64; xor.b32 {}, {}, {}; bra past;", form.text, other, other, other));
    w.line(fmt::format("read: ld.shared.b32 {}, [{}];", y, other));
    w.line("past:");
    result(w, y);
    return;
  }
  if (form.has("red")) {
    const bool counts = form.has("popc");
    const std::string answer = w.fresh(counts ? 32 : 1), again = w.fresh(counts ? 32 : 1);
    w.line(fmt::format("{} {}, 1, {};", form.text, answer, p));
    w.line(fmt::format("{} {}, 2, 64, !{};", form.text, again, p));
    if (counts) {
      result(w, answer);
      result(w, again);
    } else {
      w.output_predicate(answer);
      w.output_predicate(again);
    }
  } else {
    w.line(fmt::format("{} 0;", form.text));
  }
  w.line(fmt::format("ld.shared.b32 {}, [{}];", y, other));
  result(w, y);
  if (form.has("sync")) {
    w.line(fmt::format("{} 5, 64;", form.text));
    w.line(fmt::format("st.shared.b32 [{}], {};", mine, y));
    w.line(fmt::format("{} 5, 64;", form.text));
    w.line(fmt::format("ld.shared.b32 {}, [{}];", y, other));
    result(w, y);
  }
}

void warp_barrier(Writer& w, const FormText& form) {
  w.shared(".shared .align 8 .b8 tile[256];");
  const std::string x = random_word(w), mine = w.fresh(32), other = w.fresh(32), y = w.fresh(32), p = w.fresh(1);
  w.line(fmt::format(
      "mov.u32 {0}, tile; mad.lo.u32 {1}, %thread, 4, {0}; xor.b32 {2}, %thread, 2; mad.lo.u32 {2}, {2}, 4, {0};", y,
      mine, other));
  w.line(fmt::format("and.b32 {0}, %lane, 1; setp.eq.u32 {1}, {0}, 1; @{1} bra odd;", y, p));
  w.line(fmt::format("st.shared.b32 [{}], {}; {} 0x55555555; bra read;", mine, x, form.text));
  w.line(fmt::format("odd: not.b32 {0}, {0}; st.shared.b32 [{1}], {0}; {2} 0xaaaaaaaa;", x, mine, form.text));
  w.line(fmt::format("read: {} -1; ld.shared.b32 {}, [{}];", form.text, y, other));
  result(w, y);
}

// Instructions without a result: what stands around them must come out as if they were not there.
void no_effect(Writer& w, const FormText& form) {
  const std::string x = random_word(w), y = random_word(w);
  w.line(fmt::format("st.global.b32 [%out], {};", x));
  static_cast<void>(w.reserve_output(256, 8));
  std::string operands;
  if (form.opcode == "nanosleep") operands = " 20";
  if (form.opcode == "setmaxnreg") operands = " 64";
  const bool local = form.has("local");
  if (local) w.shared(".local .align 8 .b8 depot[64];");
  if (form.opcode == "prefetch" || form.opcode == "prefetchu") operands = local ? " [depot]" : " [%in]";
  if (form.opcode == "applypriority") operands = " [%out], 128";
  w.line(form.text + operands + ";");
  w.line(fmt::format("add.u32 {0}, {0}, {1}; ld.global.b32 {1}, [%out];", y, x));
  result(w, y);
  result(w, x);
}

// What is discarded may hold anything, so all of it is written again before it is read.
void discard(Writer& w, const FormText& form) {
  const std::string x = random_word(w, 64);
  static_cast<void>(w.reserve_output(128, 128));
  w.line(fmt::format("{} [%out], 128;", form.text));
  for (int i = 0; i < 128; i += 8) w.line(fmt::format("st.global.b64 [%out+{}], {};", i, x));
}

void create_policy(Writer& w, const FormText& form) {
  const std::string policy = w.fresh(64), x = random_word(w), y = w.fresh(32);
  if (form.has("fractional"))
    w.line(fmt::format("{} {}, 0f3F000000;", form.text, policy));
  else if (form.has("range"))
    w.line(fmt::format("{} {}, [%in], 0x1000, 0x2000;", form.text, policy));
  else
    w.line(fmt::format("{} {}, 0;", form.text, policy));
  w.line(fmt::format("ld.global.L2::cache_hint.b32 {}, [%in], {};", y, policy));
  w.line(fmt::format("add.u32 {0}, {0}, {1};", x, y));
  result(w, x);
}

// Copies of each size the form allows, zero fill, two groups, the older waited for alone.
void copy_async(Writer& w, const FormText& form) {
  w.shared(".shared .align 16 .b8 tile[4096];");
  const std::uint32_t from = w.reserve_input(64, [&] { return w.random()(); });
  const std::string address = w.fresh(32), n = w.fresh(32), word = w.fresh(64), p = w.fresh(1);
  w.line(fmt::format("mov.u32 {0}, tile; mad.lo.u32 {0}, %thread, 64, {0};", address));
  for (int i = 0; i < 64; i += 8) w.line(fmt::format("st.shared.b64 [{}+{}], -1;", address, i));
  const bool is_copy = !form.has("commit_group") && !form.has("wait_group") && !form.has("wait_all");
  const std::string copy = is_copy ? form.text : "cp.async.ca.shared.global";
  const bool any_size = form.has("ca") || !is_copy;
  w.line(fmt::format("{} [{}], [%in+{}], 16;", copy, address, from));
  if (any_size) {
    w.line(fmt::format("{} [{}+16], [%in+{}], 8, 3;", copy, address, from + 16));
    w.line(fmt::format("{} [{}+24], [%in+{}], 4;", copy, address, from + 24));
  }
  w.line("cp.async.commit_group;");
  w.line(fmt::format("and.b32 {0}, %lane, 15; {1} [{2}+32], [%in+{3}], 16, {0};", n, copy, address, from + 32));
  w.line(fmt::format("setp.gt.u32 {}, {}, 7; {} [{}+48], [%in+{}], 16, {};", p, n, copy, address, from + 48, p));
  w.line("cp.async.commit_group;");
  w.line("cp.async.wait_group 1;");
  for (int i = 0; i < 32; i += 8) {
    w.line(fmt::format("ld.shared.b64 {}, [{}+{}];", word, address, i));
    result(w, word, 64);
  }
  w.line(form.has("wait_all") ? "cp.async.wait_all;" : "cp.async.wait_group 0;");
  w.line("bar.sync 0;");
  w.line(fmt::format("mov.u32 {0}, tile; xor.b32 {1}, %thread, 1; mad.lo.u32 {0}, {1}, 64, {0};", address, n));
  for (int i = 32; i < 64; i += 8) {
    w.line(fmt::format("ld.shared.b64 {}, [{}+{}];", word, address, i));
    result(w, word, 64);
  }
}

// 64 threads in two warps hand values over through an mbarrier.
void message_barrier(Writer& w, const FormText& form) {
  w.shared(".shared .align 8 .b8 tile[256];");
  w.shared(".shared .align 8 .b64 gate;");
  const std::string x = random_word(w), mine = w.fresh(32), other = w.fresh(32), gate32 = w.fresh(32), y = w.fresh(32),
                    state = w.fresh(64), p = w.fresh(1), first = w.fresh(1), gate64 = w.fresh(64);
  w.line(fmt::format(
      "mov.u32 {0}, tile; mad.lo.u32 {1}, %thread, 4, {0}; xor.b32 {2}, %thread, 33; mad.lo.u32 {2}, {2}, 4, {0};", y,
      mine, other));
  w.line(fmt::format("mov.u32 {}, gate; cvt.u64.u32 {}, {}; cvta.shared.u64 {}, {};", gate32, gate64, gate32, gate64,
                     gate64));
  w.line(fmt::format("setp.eq.u32 {}, %thread, 0;", first));
  const bool named = form.has("shared") || form.has("shared::cta");
  const std::string gate = named ? gate32 : gate64;  // the form's own idea of an address
  const auto own = [&](const char* part, const std::string& otherwise) {
    return form.has(part) ? form.text : otherwise;
  };
  w.line(fmt::format("@{} {} [{}], 64;", first, own("init", "mbarrier.init.shared.b64"),
                     form.has("init") ? gate : gate32));
  w.line("bar.sync 0;");
  if (form.has("inval")) {
    w.line(fmt::format("@{} {} [{}];", first, form.text, gate));
    result(w, x);
    return;
  }
  if (form.has("pending_count")) {
    w.line(fmt::format("@{} mbarrier.arrive.shared.b64 {}, [{}], 5;", first, state, gate32));
    w.line("bar.sync 0;");
    w.line(fmt::format("@!{} mov.b64 {}, 0;", first, state));
    w.line(fmt::format("@{} mbarrier.arrive.shared.b64 {}, [{}], 3;", first, state, gate32));
    w.line(fmt::format("{} {}, {};", form.text, y, state));
    w.line(fmt::format("selp.b32 {0}, {0}, 0, {1};", y, first));
    result(w, y);
    return;
  }
  const bool copies = form.opcode == "cp";
  if (copies)
    w.line(fmt::format("cp.async.ca.shared.global [{}], [%in], 4;", mine));
  else
    w.line(fmt::format("st.shared.b32 [{}], {};", mine, x));
  const std::string plain = "mbarrier.arrive.shared.b64";
  if (copies) {
    w.line(fmt::format("{} [{}];", form.text, gate));
    if (!form.has("noinc")) w.line(fmt::format("{} {}, [{}];", plain, state, gate32));
  } else if (form.has("noComplete")) {
    // The last thread arrives by itself when the others have.
    w.line(fmt::format("setp.eq.u32 {}, %thread, 63; @!{} {} {}, [{}], 1;", p, p, form.text, state, gate));
    w.line("bar.sync 0;");
    w.line(fmt::format("@{} {} {}, [{}];", p, plain, state, gate32));
  } else if (form.has("arrive") || form.has("arrive_drop")) {
    w.line(fmt::format("{} {}, [{}];", form.text, state, gate));
  } else {
    w.line(fmt::format("{} {}, [{}];", plain, state, gate32));
  }
  const bool waits = form.has("test_wait") || form.has("try_wait");
  const std::string wait = waits ? form.text : "mbarrier.test_wait.parity.shared.b64";
  const bool parity = !waits || form.has("parity");
  w.line(fmt::format("wait: {} {}, [{}], {};", wait, p, waits ? gate : gate32, parity ? "0" : state));
  w.line(fmt::format("@!{} bra wait;", p));
  w.line(fmt::format("ld.shared.b32 {}, [{}];", y, other));
  result(w, y);
}

// An address of each space goes to generic and back; what lies there is the same either way.
void convert_address(Writer& w, const FormText& form) {
  const std::string space = space_of(form), type = form.type();
  const std::string name = form.modifiers.at(form.has("to") ? 1 : 0);  // as written: shared::cta
  const std::string x = random_word(w), y = w.fresh(32), there = w.fresh(64), back = w.fresh(64), address = w.fresh(64);
  if (space == "shared") w.shared(".shared .align 8 .b8 spot[256];");
  if (space == "local") w.shared(".local .align 8 .b8 spot[256];");
  const bool writable = space == "shared" || space == "local";
  if (space == "const") {
    std::vector<std::string> bytes;
    for (int i = 0; i < 256; ++i) {
      w.kernel().constants.push_back(static_cast<std::uint8_t>(w.random()()));
      bytes.push_back(std::to_string(w.kernel().constants.back()));
    }
    w.module(fmt::format(".const .align 8 .b8 table[256] = {{{}}};", fmt::join(bytes, ",")));
  }
  if (space == "param") {
    w.kernel().block.assign(128, 0);
    for (std::uint8_t& byte : w.kernel().block) byte = static_cast<std::uint8_t>(w.random()());
  }
  const std::string symbol = writable ? "spot" : space == "const" ? "table" : space == "param" ? "block" : "%in";
  const std::string offset = w.fresh(64);
  w.line(fmt::format("mov.u64 {}, {}; and.b32 {}, %thread, 15; mul.wide.u32 {}, {}, 4; add.u64 {}, {}, {};", address,
                     symbol, y, offset, y, address, address, offset));
  if (writable) w.line(fmt::format("st.{}.b32 [{}], {};", space == "shared" ? "shared" : "local", address, x));
  if (space == "shared") w.line("bar.sync 0;");
  if (type == "u32") {
    // 32-bit windows: only the way there and back is defined on a 64-bit machine.
    const std::string narrow = w.fresh(32), round = w.fresh(32);
    w.line(fmt::format("cvt.u32.u64 {0}, {1}; cvta.{2}.u32 {3}, {0}; cvta.to.{2}.u32 {3}, {3};", narrow, address, name,
                       round));
    w.line(fmt::format("sub.u32 {0}, {0}, {1};", round, narrow));
    result(w, round);
    return;
  }
  w.line(fmt::format("cvta.{0}.u64 {1}, {2}; cvta.to.{0}.u64 {3}, {1};", name, there, address, back));
  w.line(fmt::format("sub.u64 {0}, {0}, {1};", back, address));
  result(w, back, 64);
  // Threads of one row of 16 share a spot; they all read what is there now.
  w.line(fmt::format("ld.b32 {}, [{}];", y, there));
  if (space == "shared") w.line("bar.sync 0;");
  if (space != "shared") result(w, y);
}

void is_in_space(Writer& w, const FormText& form) {
  w.shared(".shared .align 8 .b8 tile[64];");
  w.shared(".local .align 8 .b8 depot[64];");
  w.kernel().block.assign(128, 7);
  const std::string address = w.fresh(64), p = w.fresh(1);
  const auto ask = [&](const std::string& setup) {
    w.line(setup);
    w.line(fmt::format("{} {}, {};", form.text, p, address));
    w.output_predicate(p);
  };
  ask(fmt::format("mov.b64 {}, %in;", address));
  ask(fmt::format("mov.u64 {0}, tile; cvta.shared.u64 {0}, {0};", address));
  ask(fmt::format("mov.u64 {0}, depot; cvta.local.u64 {0}, {0};", address));
  w.line(fmt::format("ld.b32 {}, [%in];", w.fresh(32)));
}

// Scalars, packing, unpacking, special registers, literals.
void move(Writer& w, const FormText& form) {
  const std::string type = form.type();
  if (type == "pred") {
    const std::string p = w.input_predicate([&w] { return w.random()() % 2 == 0; }), q = w.fresh(1);
    w.line(fmt::format("mov.pred {}, {};", q, p));
    w.output_predicate(q);
    w.line(fmt::format("@{} mov.pred {}, 0;", p, q));
    w.output_predicate(q);
    return;
  }
  const int bits = oracle::type_bits(type);
  const std::string x = random_word(w, bits), y = w.fresh(bits);
  const std::string p = w.input_predicate([&w] { return w.random()() % 2 == 0; });
  w.line(fmt::format("{} {}, {};", form.text, y, x));
  result(w, y, bits);
  const std::string literal = type == "f32" ? "0f40490FDB" : type == "f64" ? "0d400921FB54442D18" : "-2";
  w.line(fmt::format("@{} {} {}, {};", p, form.text, y, literal));
  result(w, y, bits);
  if (bits == 32 && type != "f32")
    for (const char* special :
         {"%tid.x", "%tid.y", "%ntid.x", "%ctaid.x", "%nctaid.x", "%nctaid.z", "%laneid", "%warpid", "%lanemask_eq",
          "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"}) {
      w.line(fmt::format("{} {}, {};", form.text, y, special));
      result(w, y, bits);
    }
  if (type[0] != 'b' || bits == 16) return;
  for (const int parts : {2, 4}) {
    const int part = bits / parts;
    if (part < 16) continue;
    std::vector<std::string> pieces;
    for (int i = 0; i < parts; ++i) pieces.push_back(w.fresh(part));
    w.line(fmt::format("{} {{{}}}, {};", form.text, fmt::join(pieces, ", "), x));
    for (const std::string& piece : pieces) result(w, piece, part);
    std::reverse(pieces.begin(), pieces.end());
    w.line(fmt::format("{} {}, {{{}}};", form.text, y, fmt::join(pieces, ", ")));
    result(w, y, bits);
  }
}

Make maker_of(const FormText& form) {
  static const std::map<std::string, Make> makers = {{"bra", branch},
                                                     {"brx", branch_table},
                                                     {"call", call},
                                                     {"ret", give_back},
                                                     {"exit", leave},
                                                     {"barrier", barrier},
                                                     {"membar", no_effect},
                                                     {"fence", no_effect},
                                                     {"prefetch", no_effect},
                                                     {"prefetchu", no_effect},
                                                     {"nanosleep", no_effect},
                                                     {"griddepcontrol", no_effect},
                                                     {"setmaxnreg", no_effect},
                                                     {"brkpt", no_effect},
                                                     {"applypriority", no_effect},
                                                     {"discard", discard},
                                                     {"createpolicy", create_policy},
                                                     {"mbarrier", message_barrier},
                                                     {"cvta", convert_address},
                                                     {"isspacep", is_in_space},
                                                     {"mov", move}};
  if (form.opcode == "bar") return form.has("warp") ? warp_barrier : barrier;
  if (form.opcode == "cp") return form.has("mbarrier") ? message_barrier : copy_async;
  const auto found = makers.find(form.opcode);
  return found == makers.end() ? nullptr : found->second;
}

}  // namespace

std::optional<MicroKernel> handwritten_form(const FormText& form, Random& random) {
  const Make make = maker_of(form);
  if (make == nullptr) return std::nullopt;
  Writer writer(form.text, 64, random);
  make(writer, form);
  return writer.finish();
}

bool is_handwritten(const FormText& form) {
  return maker_of(form) != nullptr;
}

bool ends_the_grid(const FormText& form) {
  return form.opcode == "trap";
}

}  // namespace flashmoe::vgpu::micro
