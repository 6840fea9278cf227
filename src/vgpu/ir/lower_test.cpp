#include "vgpu/ir/lower.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "vgpu/ir/layout.hpp"
#include "vgpu/ir/test_kernel.hpp"

namespace flashmoe::vgpu::ir {
namespace {

std::size_t find_form(const Kernel& kernel, std::string_view text, std::size_t from = 0) {
  for (std::size_t i = from; i < kernel.info.size(); ++i)
    if (kernel.info[i].form.text() == text) return i;
  ADD_FAILURE() << "no " << text;
  return 0;
}

const Constant* constant_in(const Function& function, std::uint32_t slot) {
  for (const Constant& constant : function.constants)
    if (constant.slot == slot) return &constant;
  return nullptr;
}

TEST(Lower, PlainOperandsBecomeSlots) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p0];
    ld.param.u32 %r1, [p1];
    mad.lo.s32 %r2, %r1, %r1, 7;
    mul.wide.s32 %rd2, %r2, 4;
    st.global.u32 [%rd1+12], %r2;
    ret;)"));
  const Inst& load = kernel.code[find_form(kernel, "ld.param.u32")];
  EXPECT_EQ(load.imm, 8);
  EXPECT_EQ(load.a, no_slot);
  EXPECT_FALSE(load.frame_parameter);
  EXPECT_EQ(load.size, 4);
  const Inst& mad = kernel.code[find_form(kernel, "mad.lo.s32")];
  EXPECT_EQ(mad.a, load.d);
  EXPECT_EQ(mad.b, load.d);
  ASSERT_NE(constant_in(kernel.functions[0], mad.c), nullptr);
  EXPECT_EQ(constant_in(kernel.functions[0], mad.c)->bits, 7u);
  const Inst& store = kernel.code[find_form(kernel, "st.global.u32")];
  EXPECT_TRUE(store.wide_address);
  EXPECT_EQ(store.imm, 12);
  EXPECT_EQ(store.b, mad.d);
  const InstInfo& wide = kernel.info[find_form(kernel, "mul.wide.s32")];
  EXPECT_EQ(wide.writes.size(), 2u);
  EXPECT_EQ(wide.reads.size(), 2u);  // %r2 and the constant
  EXPECT_EQ(kernel.parameters[1].offset, 8u);
  EXPECT_EQ(kernel.parameter_bytes, 12u);
}

TEST(Lower, ImmediatesTakeTheOperandsType) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .f32 %f<3>; .reg .f64 %fd<3>; .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
    add.f32 %f1, %f1, 0f3F800000;
    add.f32 %f2, %f1, 1.5;
    add.f64 %fd1, %fd1, 0f3F800000;
    add.f64 %fd2, %fd1, 0d4000000000000000;
    add.f16 %h1, %h1, 1.5;
    add.bf16 %h1, %h1, 1.5;
    add.s16 %h2, %h2, -1;
    add.s32 %r1, %r1, -1;
    add.s64 %rd1, %rd1, -1;
    mov.f32 %f1, 1065353216;
    ret;)"));
  const std::pair<std::string_view, std::uint64_t> wanted[] = {
      {"add.f32", 0x3f800000u},
      {"add.f32", 0x3fc00000u},
      {"add.f64", 0x3ff0000000000000u},
      {"add.f64", 0x4000000000000000u},
      {"add.f16", 0x3e00u},
      {"add.bf16", 0x3fc0u},
      {"add.s16", 0xffffu},
      {"add.s32", 0xffffffffu},
      {"add.s64", ~std::uint64_t{0}},
  };
  std::size_t at = 0;
  for (const auto& [form, bits] : wanted) {
    at = find_form(kernel, form, at);
    const Constant* constant = constant_in(kernel.functions[0], kernel.code[at].b);
    ASSERT_NE(constant, nullptr) << form;
    EXPECT_EQ(constant->bits, bits) << form;
    ++at;
  }
  // mov.f32 of the integer 1065353216 and add.f32 of 0f3F800000 share one slot: the same bits.
  EXPECT_EQ(kernel.code[find_form(kernel, "mov.f32")].a, kernel.code[find_form(kernel, "add.f32")].b);
}

TEST(Lower, SpecialRegistersAndNegatedPredicatesGetTemporaries) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .pred %p<3>;
    mov.u32 %r1, %ctaid.y;
    add.s32 %r2, %tid.x, %r1;
    setp.lt.and.s32 %p1, %r1, %r2, !%p2;
    vote.sync.ballot.b32 %r3, !%p1, -1;
    ret;)"));
  const std::size_t direct = find_form(kernel, "mov.u32");
  EXPECT_EQ(kernel.code[direct].special, static_cast<std::uint16_t>(Special::ctaid_y));
  EXPECT_TRUE(kernel.info[direct].form.reads_special);
  EXPECT_FALSE(kernel.info[direct].is_pseudo);
  const std::size_t add = find_form(kernel, "add.s32");
  EXPECT_EQ(kernel.code[add - 1].special, static_cast<std::uint16_t>(Special::tid_x));
  EXPECT_EQ(kernel.code[add - 1].d, kernel.code[add].a);
  EXPECT_TRUE(kernel.info[add - 1].is_pseudo);
  EXPECT_TRUE(kernel.code[find_form(kernel, "setp.lt.and.s32")].not_c);
  const std::size_t vote = find_form(kernel, "vote.sync.ballot.b32");
  EXPECT_EQ(kernel.info[vote - 1].form.text(), "vgpu.converge");
  EXPECT_EQ(kernel.code[vote - 1].m, kernel.code[vote].m);
  EXPECT_EQ(kernel.info[vote - 2].form.text(), "not.pred");
  EXPECT_EQ(kernel.code[vote - 2].d, kernel.code[vote].a);
}

TEST(Lower, VectorsAndMatricesAreLists) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<12>; .reg .f32 %f<5>; .reg .b64 %rd<3>; .reg .b16 %h<3>;
    ld.global.v4.u32 {%r1, _, %r3, %r4}, [%rd1+16];
    mov.b64 %rd2, {%r1, %r3};
    mov.b32 {%h1, _}, %r4;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r1];
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r5, %r6, %r7, %r8}, {%r1, %r3},
      {%f1, %f2, %f3, %f4};
    st.shared.v2.u64 [%r1], {%rd2, 7};
    ret;)"));
  const Inst& load = kernel.code[find_form(kernel, "ld.global.v4.u32")];
  EXPECT_EQ(load.size, 16);
  EXPECT_EQ(load.imm, 16);
  EXPECT_EQ(load.d, no_slot);
  EXPECT_EQ(kernel.lists[load.list + 1], no_slot);
  const std::size_t pack = find_form(kernel, "mov.b64");
  EXPECT_EQ(kernel.info[pack].form.source_count, 2);
  EXPECT_EQ(kernel.info[pack].form.destination_bits, 64);
  EXPECT_EQ(kernel.lists[kernel.code[pack].list], kernel.lists[load.list]);
  const std::size_t unpack = find_form(kernel, "mov.b32");
  EXPECT_EQ(kernel.info[unpack].form.destination_count, 2);
  EXPECT_EQ(kernel.info[unpack].form.destination_bits, 16);
  EXPECT_EQ(kernel.info[unpack].form.source_bits, 32);
  const std::size_t mma = find_form(kernel, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  EXPECT_EQ(kernel.info[mma].reads.size(), 10u);
  EXPECT_EQ(kernel.info[mma].writes.size(), 4u);
  EXPECT_EQ(kernel.code[find_form(kernel, "ldmatrix.sync.aligned.m8n8.x4.shared.b16")].size, 16);
  // One meeting of the warp is enough for a basic block.
  EXPECT_EQ(std::count_if(kernel.info.begin(), kernel.info.end(),
                          [](const InstInfo& info) { return info.form.text() == "vgpu.converge"; }),
            1);
}

TEST(Lower, TheWarpMeetsAgainWhereItMayHaveParted) {
  const auto meetings = [](const std::string& between) {
    const Kernel kernel =
        lowered(in_kernel(".reg .b32 %r<4>; .reg .pred %p<2>;\nshfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\n" + between +
                          "\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nret;"));
    return std::count_if(kernel.info.begin(), kernel.info.end(),
                         [](const InstInfo& info) { return info.form.text() == "vgpu.converge"; });
  };
  EXPECT_EQ(meetings("add.s32 %r1, %r1, 1;"), 1);
  EXPECT_EQ(meetings("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];"), 1);
  EXPECT_EQ(meetings("@%p1 shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;"), 3);  // lanes that skip it run ahead
  EXPECT_EQ(meetings("shfl.sync.idx.b32 %r1, %r1, 0, 31, %r2;"), 3);
  EXPECT_EQ(meetings("bar.warp.sync -1;"), 2);
  EXPECT_EQ(meetings("@%p1 barrier.sync 0;"), 2);
  EXPECT_EQ(meetings("@%p1 bra L; mov.u32 %r2, 1; L:"), 2);
}

TEST(Lower, BranchesKnowWhereLanesMeet) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .pred %p<3>;
    @%p1 bra THEN;
    mov.u32 %r1, 1;
    bra.uni DONE;
  THEN:
    mov.u32 %r1, 2;
  LOOP:
    add.s32 %r1, %r1, 1;
    @!%p2 bra LOOP;
  DONE:
    st.shared.u32 [%r2], %r1;
    ret;)"));
  const Inst& split = kernel.code[0];
  const auto meeting = static_cast<std::size_t>(split.imm);
  EXPECT_EQ(kernel.info[meeting].form.text(), "vgpu.reconverge");
  EXPECT_EQ(kernel.info[meeting + 1].form.text(), "st.shared.u32");
  EXPECT_TRUE(split.runs_empty);
  EXPECT_EQ(split.guard, kernel.info[0].read_predicates[0] + 1);
  const std::size_t loop = find_form(kernel, "bra", 1);
  EXPECT_EQ(kernel.code[loop].imm, split.imm);
  EXPECT_TRUE(kernel.code[loop].guard_negated);
  EXPECT_EQ(kernel.info[kernel.code[loop].target].form.text(), "add.s32");
  const std::size_t jump = find_form(kernel, "bra.uni");
  EXPECT_EQ(kernel.code[jump].imm, -1);
  EXPECT_EQ(kernel.code[jump].target, meeting);
}

TEST(Lower, EarlyReturnsDoNotKeepTheOthersApart) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .pred %p<3>;
    @%p1 bra B;
    @%p2 bra STOP;
    mov.u32 %r1, 1;
    bra.uni B;
  STOP:
    ret;
  B:
    st.shared.u32 [%r2], %r1;
    ret;)"));
  ASSERT_GE(kernel.code[0].imm, 0);
  EXPECT_EQ(kernel.info[static_cast<std::size_t>(kernel.code[0].imm) + 1].form.text(), "st.shared.u32");
}

TEST(Lower, IndexedBranchListsItsTargets) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>;
    TABLE: .branchtargets A, B, A;
    brx.idx %r1, TABLE;
  A:
    mov.u32 %r2, 1;
  B:
    st.shared.u32 [%r1], %r2;)"));
  const Inst& jump = kernel.code[find_form(kernel, "brx.idx")];
  EXPECT_EQ(kernel.lists[jump.list], 3u);
  EXPECT_EQ(kernel.lists[jump.list + 1], kernel.lists[jump.list + 3]);
  EXPECT_EQ(kernel.lists[jump.list + 2], static_cast<std::uint32_t>(jump.imm));
  EXPECT_EQ(kernel.info.back().form.text(), "ret");  // control ran off the end
  EXPECT_TRUE(kernel.info.back().is_pseudo);
}

TEST(Lower, SymbolsAreAddresses) {
  const Kernel kernel =
      lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    .shared .align 8 .b8 inner[24];
    .local .align 16 .b8 depot[40];
    mov.u32 %r1, inner;
    mov.u32 %r2, dynamic;
    mov.u64 %rd1, table+8;
    mov.u64 %rd2, depot;
    ld.shared.u32 %r3, [outer+4];
    st.local.u32 [depot+8], %r3;
    ld.global.u32 %r3, [table];
    ret;)",
                        ".global .align 4 .b8 table[64];\n.shared .align 4 .b8 outer[8];\n"
                        ".shared .align 4 .b8 unused[400];\n.extern .shared .align 64 .b8 dynamic[];\n"));
  const auto value = [&](std::size_t at) { return constant_in(kernel.functions[0], kernel.code[at].a)->bits; };
  EXPECT_EQ(kernel.static_shared_bytes, 32u);
  EXPECT_EQ(kernel.dynamic_shared_offset, 64u);
  EXPECT_EQ(value(0), 0u);
  EXPECT_EQ(value(1), 64u);
  EXPECT_EQ(value(2), 0x10008u);
  EXPECT_TRUE(constant_in(kernel.functions[0], kernel.code[3].a)->local);
  EXPECT_EQ(kernel.code[4].imm, 28);
  EXPECT_EQ(kernel.code[4].a, no_slot);
  EXPECT_EQ(kernel.code[5].imm, 8);
  EXPECT_EQ(kernel.code[6].imm, 0x10000);
  EXPECT_EQ(kernel.functions[0].local_bytes, 48u);
}

// Arrays stand apart, each as far from a multiple of 128 bytes as without; what a device would say of them stays.
TEST(Lower, RedZonesKeepBanksAndSizes) {
  const std::string text = in_kernel(R"(
    .reg .b32 %r<4>;
    .shared .align 4 .b8 first[24];
    .shared .align 4 .b8 second[8];
    .shared .align 256 .b8 third[16];
    mov.u32 %r1, first;
    mov.u32 %r2, second;
    mov.u32 %r3, third;
    mov.u32 %r1, dynamic;
    ret;)",
                                     ".extern .shared .align 16 .b8 dynamic[];\n");
  const Kernel plain = lowered(text), apart = lowered(text, true);
  EXPECT_TRUE(plain.shared_arrays.empty());
  EXPECT_EQ(plain.red_zone_bytes, 0u);
  EXPECT_EQ(apart.static_shared_bytes, plain.static_shared_bytes);
  EXPECT_EQ(apart.dynamic_shared_offset, plain.dynamic_shared_offset);
  const auto place = [](const Kernel& kernel, std::size_t at) {
    return constant_in(kernel.functions[0], kernel.code[at].a)->bits;
  };
  for (std::size_t at = 0; at < 4; ++at) EXPECT_EQ(place(apart, at) % 128, place(plain, at) % 128) << at;
  EXPECT_EQ(place(apart, 2) % 256, 0u);
  ASSERT_EQ(apart.shared_arrays.size(), 3u);
  std::uint64_t end = 0;
  for (const SharedArray& array : apart.shared_arrays) {
    EXPECT_TRUE(end == 0 || array.offset >= end + kRedZoneBytes) << array.name;
    end = std::uint64_t{array.offset} + array.bytes;
  }
  EXPECT_GE(place(apart, 3), end + kRedZoneBytes);
  EXPECT_EQ(place(apart, 3), apart.dynamic_shared_offset + apart.red_zone_bytes);
}

constexpr const char* kFunctions = R"(
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.func (.param .b32 out) twice(.param .b32 in, .param .b64 where)
{
  .reg .b32 %r<3>; .reg .pred %p<2>;
  ld.param.b32 %r1, [in];
  @%p1 ret;
  st.param.b32 [out], %r1;
  ret;
}
)";

TEST(Lower, CallsCopyParameters) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    { .param .b32 x; .param .b64 y; .param .b32 z;
      st.param.b32 [x], %r1;
      st.param.b64 [y], %rd1;
      call.uni (z), twice, (x, y);
      ld.param.b32 %r2, [z];
    }
    call (%r3), twice, (5, %rd1);
    { .param .b64 a; .param .b64 b; .param .b32 c;
      call (c), vprintf, (a, b); }
    mov.u64 %rd2, twice;
    ret;)",
                                          kFunctions));
  ASSERT_EQ(kernel.functions.size(), 3u);
  EXPECT_EQ(kernel.functions[1].name, "twice");
  EXPECT_EQ(kernel.functions[1].parameter_bytes, 16u);
  EXPECT_EQ(kernel.functions[1].address, 0x700u + 5);
  EXPECT_EQ(kernel.functions[2].builtin, "vprintf");
  const std::size_t call = find_form(kernel, "call.uni");
  const std::uint32_t* list = &kernel.lists[kernel.code[call].list];
  EXPECT_EQ(kernel.code[call].target, 1u);
  const std::uint32_t wanted[] = {1, 2, 16, 0, 4, 0, 4, 4, 8, 8, 8};  // z lies behind x and y in the caller's area
  EXPECT_TRUE(std::equal(std::begin(wanted), std::end(wanted), list));
  EXPECT_TRUE(kernel.code[call - 1].frame_parameter);
  EXPECT_EQ(kernel.code[call - 1].imm, 8);
  // Registers and constants as arguments pass through a .param of their own.
  const std::size_t direct = find_form(kernel, "call");
  EXPECT_EQ(kernel.info[direct - 1].form.text(), "st.param.b64");
  EXPECT_EQ(kernel.info[direct - 2].form.text(), "st.param.b32");
  EXPECT_EQ(kernel.info[direct + 1].form.text(), "ld.param.b32");
  EXPECT_EQ(kernel.code[direct + 1].imm, kernel.lists[kernel.code[direct].list + 2]);
  // Two ways out of `twice` become one.
  EXPECT_EQ(std::count_if(kernel.info.begin() + kernel.functions[1].entry, kernel.info.end(),
                          [](const InstInfo& info) { return info.form.opcode == "ret"; }),
            1);
}

// As Triton writes them; ptxas takes braces around one register wherever a vector may stand.
TEST(Lower, AVectorOfOneIsAScalar) {
  const auto body = [](const std::string& r1, const std::string& one, const std::string& h1) {
    return in_kernel(
        ".reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .b16 %h<2>; .shared .align 16 .b8 s[64];\n"
        "ld.param.u64 %rd1, [p0]; ld.global.b32 " +
        r1 + ", [%rd1]; ld.global.nc.L1::evict_last.b16 " + h1 + ", [%rd1+8];\nst.global.b32 [%rd1], " + r1 +
        "; st.shared.u32 [s], " + one + "; mov.b32 %r2, " + r1 + "; mov.b32 " + r1 +
        ", %r2; @%p1 st.volatile.global.b16 [%rd1+2], " + h1 + "; ret; .reg .pred %p<2>;");
  };
  const Kernel scalar = lowered(body("%r1", "1", "%h1")), braced = lowered(body("{%r1}", "{1}", "{ %h1 }"));
  ASSERT_EQ(scalar.code.size(), braced.code.size());
  for (std::size_t i = 0; i < scalar.code.size(); ++i) {
    const Inst &a = scalar.code[i], &b = braced.code[i];
    EXPECT_EQ(std::tie(a.d, a.a, a.b, a.list, a.size), std::tie(b.d, b.a, b.b, b.list, b.size)) << braced.info[i].text;
    EXPECT_EQ(scalar.info[i].form.text(), braced.info[i].form.text());
    EXPECT_EQ(scalar.info[i].form.destination_count, braced.info[i].form.destination_count);
  }
}

TEST(Lower, TheStackThatIsKnownBeforeALaunch) {
  const std::string functions =
      ".func leaf(.param .b64 x) { .local .b64 room[10]; ret; }\n"
      ".func middle() { .param .b64 p; call leaf, (p); ret; }\n"
      ".func again(.param .b32 n) { .local .b8 room[30]; { .param .b32 p; call again, (p); } call middle; ret; }\n"
      ".func other() { .local .b8 room[2000]; ret; }\n";
  // leaf: 16 and 8 of parameters and 80; middle: 16. An entry has no caller: its own .local variables only.
  EXPECT_EQ(lowered(in_kernel(".local .b8 own[8]; call middle; ret;", functions)).stack_bytes, 16u + 16 + 104);
  // A recursion counts once, and what it goes on to: 16, 4 of parameters (rounded up) and 32.
  const Kernel recursive = lowered(in_kernel("{ .param .b32 p; call again, (p); } ret;", functions));
  EXPECT_EQ(recursive.functions[1].stack_bytes, 56u);
  EXPECT_EQ(recursive.stack_bytes, 56u + 16 + 104);
  // Through a pointer: whoever's address is taken.
  EXPECT_EQ(lowered(in_kernel(".reg .b64 %rd<2>; mov.u64 %rd1, other; p: .callprototype _ (); call %rd1, (), p; ret;",
                              functions))
                .stack_bytes,
            2016u);
}

TEST(Lower, CarryIsAPredicate) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<8>;
    add.cc.u32 %r1, %r2, %r3;
    addc.cc.u32 %r4, %r5, %r6;
    addc.u32 %r7, %r7, 0;
    st.shared.v2.u32 [%r1], {%r4, %r7};
    ret;)"));
  EXPECT_EQ(kernel.code[0].e, kernel.code[1].m);
  EXPECT_EQ(kernel.code[1].e, kernel.code[2].m);
  EXPECT_EQ(kernel.code[2].e, no_slot);
  EXPECT_EQ(kernel.info[1].read_predicates.size(), 1u);
  EXPECT_EQ(kernel.info[1].written_predicates.size(), 1u);
}

TEST(Lower, AsyncCopies) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;
    cp.async.cg.shared.global.L2::128B [%r1+32], [%rd1+8], 16, %r2;
    cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd1], 8, %rd2;
    cp.async.ca.shared.global [%r1], [%rd1], 4, %p1;
    cp.async.wait_group 3;
    ret;)"));
  EXPECT_EQ(kernel.code[0].imm, 32);
  EXPECT_EQ(kernel.code[0].imm2, 8);
  EXPECT_EQ(kernel.code[0].size, 16);
  EXPECT_TRUE(kernel.code[0].b_wide);
  EXPECT_FALSE(kernel.code[0].wide_address);
  EXPECT_NE(kernel.code[0].c, no_slot);
  EXPECT_EQ(kernel.code[1].c, no_slot);
  EXPECT_EQ(kernel.code[1].size, 8);
  EXPECT_NE(kernel.code[2].e, no_slot);
  EXPECT_EQ(kernel.info[2].read_predicates.size(), 1u);
  EXPECT_EQ(kernel.code[3].imm, 3);
}

TEST(Lower, ScopesHideNames) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>; .reg .pred p;
    mov.u32 %r1, 7;
    { .reg .b64 %r1; mov.u64 %r1, 5; L: @p bra L; }
    { L: @!p bra L; }
    st.shared.u32 [%r2], %r1;
    ret;)"));
  EXPECT_EQ(kernel.code[find_form(kernel, "st.shared.u32")].b, kernel.code[0].d);
  const std::size_t first = find_form(kernel, "bra");
  const std::size_t second = find_form(kernel, "bra", first + 1);
  EXPECT_NE(kernel.code[first].target, kernel.code[second].target);
}

TEST(Lower, SourceLines) {
  const Kernel kernel = lowered(in_kernel(R"(
    .reg .b32 %r<4>;
    .loc 1 10 3
    mov.u32 %r1, 7;
    .loc 2 41 3, function_name name, inlined_at 1 88 5
    st.shared.u32 [%r2], %r1;
    ret;)",
                                          ".file 1 \"/src/kernel.cu\"\n.file 2 \"/src/softmax.cuh\"\n"));
  EXPECT_EQ(kernel.info[0].source_line, 10);
  EXPECT_EQ(kernel.files[1], "/src/kernel.cu");
  EXPECT_EQ(kernel.info[1].source_file, 2);
  EXPECT_TRUE(kernel.info[1].inlined.starts_with("softmax.cuh:41 in ")) << kernel.info[1].inlined;
  EXPECT_TRUE(kernel.info[1].inlined.ends_with(", inlined at kernel.cu:88")) << kernel.info[1].inlined;
}

TEST(Lower, DirectivesOfTheEntry) {
  const Kernel kernel = lowered(
      ".version 9.0\n.target sm_89\n.address_size 64\n.visible .entry k(.param .align 16 .b8 s[20], .param .u8 c)\n"
      ".maxntid 64, 2, 1\n.minnctapersm 3\n{ ret; }\n");
  EXPECT_EQ(kernel.max_threads, 128u);
  EXPECT_EQ(kernel.min_ctas_per_sm, 3);
  EXPECT_EQ(kernel.parameters[0].bytes, 20u);
  EXPECT_EQ(kernel.parameters[1].offset, 20u);
  EXPECT_EQ(kernel.parameter_bytes, 21u);
}

}  // namespace
}  // namespace flashmoe::vgpu::ir
