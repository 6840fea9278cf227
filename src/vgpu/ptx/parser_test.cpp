// The grammar, form by form, and how errors read. What real compilers write is in parser_nvcc_test.cpp.
#include "vgpu/ptx/parser.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>

namespace flashmoe::vgpu::ptx {
namespace {

const std::string kHead = ".version 9.0\n.target sm_89\n.address_size 64\n";

Module parsed(const std::string& text) {
  auto module = parse(text, "test.ptx");
  if (!module) {
    ADD_FAILURE() << module.error().to_string() << "\n" << text;
    return {};
  }
  // Whatever parses has to survive the printer.
  const std::string printed = print(*module);
  const auto again = parse(printed, "printed.ptx");
  if (!again) {
    ADD_FAILURE() << again.error().to_string() << "\n" << printed;
  } else {
    EXPECT_EQ(print(*again), printed);
  }
  return std::move(*module);
}

Function body(const std::string& statements) {
  Module module = parsed(kHead + ".entry k()\n{\n" + statements + "\n}\n");
  if (module.functions.empty()) return {};
  return std::move(module.functions.front());
}

Instruction instruction(const std::string& text) {
  const Function function = body(text);
  if (function.body.statements.empty()) return {};
  return std::get<Instruction>(function.body.statements.front().what);
}

Operand operand(const std::string& text) {
  const Instruction only = instruction("op " + text + ";");
  return only.operands.empty() ? Operand{} : only.operands.front();
}

Variable variable(const std::string& text) {
  const Module module = parsed(kHead + text + "\n");
  return module.variables.empty() ? Variable{} : module.variables.front();
}

std::string problem(const std::string& text) {
  const auto module = parse(text, "test.ptx");
  return module ? "parsed" : module.error().to_string();
}

std::string problem_in_body(const std::string& statements) {
  return problem(kHead + ".entry k() {\n" + statements + "\n}");
}

TEST(Module, Head) {
  const Module module =
      parsed(".version 8.7\n.target sm_90a, debug\n.address_size 64\n.file 3 \"/a b/c.cu\", 17, 20\n");
  EXPECT_EQ(module.version_major, 8);
  EXPECT_EQ(module.version_minor, 7);
  EXPECT_EQ(module.targets, (std::vector<std::string>{"sm_90a", "debug"}));
  ASSERT_EQ(module.files.size(), 1U);
  EXPECT_EQ(module.files[0].index, 3);
  EXPECT_EQ(module.files[0].path, "/a b/c.cu");
  EXPECT_EQ(module.name, "test.ptx");
}

TEST(Module, AnyVersion) {
  EXPECT_EQ(parsed(".version 9.4\n").version_minor, 4);
  EXPECT_EQ(parsed(".version 17.12\n").version_minor, 12);
}

TEST(Module, AliasesAndPragmas) {
  const Module module = parsed(kHead + ".pragma \"nounroll\";\n.func f() { ret; }\n.alias g, f;\n");
  ASSERT_EQ(module.aliases.size(), 1U);
  EXPECT_EQ(module.aliases[0], (std::pair<std::string, std::string>("g", "f")));
  EXPECT_EQ(module.pragmas, std::vector<std::string>{"nounroll"});
}

TEST(Variables, SpacesTypesAndLinkage) {
  const Variable dynamic = variable(".extern .shared .align 16 .b8 smem[];");
  EXPECT_EQ(dynamic.space, "shared");
  EXPECT_EQ(dynamic.type, "b8");
  EXPECT_EQ(dynamic.align, 16);
  EXPECT_EQ(dynamic.dims, std::vector<std::int64_t>{-1});
  EXPECT_TRUE(dynamic.is_extern);
  const Variable vector = variable(".weak .const .v4 .f32 v[2][0x10];");
  EXPECT_EQ(vector.vector, 4);
  EXPECT_EQ(vector.dims, (std::vector<std::int64_t>{2, 16}));
  EXPECT_TRUE(vector.is_weak);
  EXPECT_TRUE(variable(".common .global .u32 c;").is_common);
  EXPECT_EQ(variable(".visible .global .attribute(.managed) .align 4 .u32 m;").attributes,
            std::vector<std::string>{"managed"});
}

TEST(Variables, Initialisers) {
  const Variable numbers = variable(".global .s32 a[4] = {1, -2, 0x3, (4+1)*2};");
  ASSERT_EQ(numbers.initial.size(), 4U);
  EXPECT_EQ(numbers.initial[1].bits, static_cast<std::uint64_t>(-2));
  EXPECT_EQ(numbers.initial[1].text, "-2");
  EXPECT_EQ(numbers.initial[3].bits, 10U);
  const Variable rows = variable(".global .u8 m[2][3] = {{1, 2}, {3}};");
  ASSERT_EQ(rows.initial.size(), 6U);
  EXPECT_EQ(rows.initial[2].bits, 0U);
  EXPECT_EQ(rows.initial[3].bits, 3U);
  const Variable text = variable(R"(.global .b8 s[] = "a\n\x41\101\"";)");
  ASSERT_EQ(text.initial.size(), 6U);
  EXPECT_EQ(text.initial[1].bits, 10U);
  EXPECT_EQ(text.initial[2].bits, 0x41U);
  EXPECT_EQ(text.initial[3].bits, 0x41U);
  EXPECT_EQ(text.initial[4].bits, static_cast<std::uint64_t>('"'));
  EXPECT_EQ(text.initial[5].bits, 0U);
  EXPECT_EQ(variable(".global .f32 f = 0f3F800000;").initial.at(0).bits, 0x3F800000U);
}

TEST(Variables, SymbolsAsInitialValues) {
  const Variable pointers = variable(".global .u64 p[4] = {foo, foo+8, generic(bar)+-4, generic(bar+2)+2};");
  ASSERT_EQ(pointers.initial.size(), 4U);
  EXPECT_EQ(pointers.initial[0].kind, Operand::Kind::identifier);
  EXPECT_EQ(pointers.initial[1].offset, 8);
  EXPECT_FALSE(pointers.initial[1].generic);
  EXPECT_TRUE(pointers.initial[2].generic);
  EXPECT_EQ(pointers.initial[2].name, "bar");
  EXPECT_EQ(pointers.initial[2].offset, -4);
  EXPECT_EQ(pointers.initial[3].offset, 4);
  EXPECT_TRUE(pointers.generic_initial);
  const Variable bytes = variable(".global .u8 p[2] = {0XFF(generic(g)+8), 0xFF00(g)};");
  EXPECT_EQ(bytes.initial.at(0).bits, 0xFFU);
  EXPECT_EQ(bytes.initial.at(0).offset, 8);
  EXPECT_EQ(bytes.initial.at(1).bits, 0xFF00U);
}

TEST(Functions, EntryWithParametersAndDirectives) {
  const Module module = parsed(kHead +
                               ".visible .entry k(\n .param .u64 .ptr .global .align 16 p,\n .param .align 8 .b8 s[24],"
                               "\n .param .u64 .ptr .align 1 q)\n"
                               ".maxntid 128, 1, 1\n.minnctapersm 2\n.maxnreg 64\n.explicitcluster\n{ ret; }");
  const Function& k = module.functions.at(0);
  EXPECT_TRUE(k.is_entry);
  EXPECT_TRUE(k.is_visible);
  ASSERT_EQ(k.parameters.size(), 3U);
  EXPECT_TRUE(k.parameters[0].is_pointer);
  EXPECT_EQ(k.parameters[0].pointer_space, "global");
  EXPECT_EQ(k.parameters[0].pointer_align, 16);
  EXPECT_EQ(k.parameters[0].align, 0);
  EXPECT_EQ(k.parameters[1].dims, std::vector<std::int64_t>{24});
  EXPECT_TRUE(k.parameters[2].pointer_space.empty());
  ASSERT_EQ(k.directives.size(), 4U);
  EXPECT_EQ(k.directives[0].first, "maxntid");
  EXPECT_EQ(k.directives[0].second, (std::vector<std::int64_t>{128, 1, 1}));
}

TEST(Functions, DeclarationsAndReturns) {
  const Module module = parsed(kHead +
                               ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                               ".func (.reg .u32 out) old(.reg .u32 in) { mov.u32 out, in; ret; }\n"
                               ".weak .func trap() .noreturn;\n");
  ASSERT_EQ(module.functions.size(), 3U);
  EXPECT_TRUE(module.functions[0].is_declaration);
  EXPECT_EQ(module.functions[0].returns.at(0).name, "r");
  EXPECT_EQ(module.functions[1].parameters.at(0).space, "reg");
  EXPECT_TRUE(module.functions[2].is_noreturn);
}

TEST(Statements, RegistersScopesAndLabels) {
  const Function k = body("  .reg .b32 %r<10>, %x;\n$L__BB0_1:\n {\n .reg .pred p;\n { nop; }\n }\n");
  ASSERT_EQ(k.body.statements.size(), 4U);
  EXPECT_EQ(std::get<Variable>(k.body.statements[0].what).range, 10);
  EXPECT_EQ(std::get<Variable>(k.body.statements[1].what).name, "%x");
  const auto& label = std::get<Label>(k.body.statements[2].what);
  EXPECT_EQ(label.name, "$L__BB0_1");
  EXPECT_EQ(label.at.line, 7);
  EXPECT_EQ(label.at.column, 1);
  EXPECT_EQ(std::get<Block>(k.body.statements[3].what).statements.size(), 2U);
}

TEST(Statements, TargetLists) {
  const Function k = body(
      "ts: .branchtargets $L1, $L2;\nfs: .calltargets f, g;\n"
      "proto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]) .noreturn;\n"
      "none: .callprototype ()_ ();\n");
  const auto& branches = std::get<TargetList>(k.body.statements.at(0).what);
  EXPECT_EQ(branches.kind, TargetList::Kind::branch);
  EXPECT_EQ(branches.targets, (std::vector<std::string>{"$L1", "$L2"}));
  EXPECT_EQ(std::get<TargetList>(k.body.statements.at(1).what).kind, TargetList::Kind::call);
  const auto& prototype = std::get<TargetList>(k.body.statements.at(2).what);
  EXPECT_EQ(prototype.kind, TargetList::Kind::prototype);
  EXPECT_EQ(prototype.returns.size(), 1U);
  EXPECT_EQ(prototype.parameters.at(1).dims, std::vector<std::int64_t>{16});
  EXPECT_TRUE(prototype.is_noreturn);
}

TEST(Instructions, GuardOpcodeModifiers) {
  const Instruction plain = instruction("@!%p1 cp.async.cg.shared.global.L2::128B [%r1], [%rd2+-16], 16, %r3;");
  ASSERT_TRUE(plain.guard);
  EXPECT_EQ(plain.guard->predicate, "%p1");
  EXPECT_TRUE(plain.guard->negated);
  EXPECT_EQ(plain.form(), "cp.async.cg.shared.global.L2::128B");
  EXPECT_EQ(plain.modifiers.back(), "L2::128B");
  ASSERT_EQ(plain.operands.size(), 4U);
  EXPECT_EQ(plain.operands[1].offset, -16);
  EXPECT_EQ(print(plain), "@!%p1 cp.async.cg.shared.global.L2::128B [%r1], [%rd2+-16], 16, %r3;");
  EXPECT_EQ(instruction("tex.1d.v4.f32.s32 {a,b,c,d}, [t, {x}];").form(), "tex.1d.v4.f32.s32");
  EXPECT_TRUE(instruction("bar.warp.sync -1;").operands.at(0).text == "-1");
  EXPECT_TRUE(instruction("ret;").operands.empty());
}

TEST(Instructions, Calls) {
  const Instruction full = instruction("call.uni (retval0), \n _Z1f, \n (\n param0, \n 5 \n), prototype_0;");
  ASSERT_EQ(full.operands.size(), 4U);
  EXPECT_EQ(full.operands[0].kind, Operand::Kind::list);
  EXPECT_EQ(full.operands[1].name, "_Z1f");
  EXPECT_EQ(full.operands[2].parts.size(), 2U);
  EXPECT_EQ(full.operands[3].name, "prototype_0");
  EXPECT_EQ(instruction("call f;").operands.size(), 1U);
  EXPECT_TRUE(instruction("call.uni f, ();").operands.at(1).parts.empty());
}

TEST(Operands, Names) {
  EXPECT_EQ(operand("%tid.x").name, "%tid.x");
  EXPECT_EQ(operand("%laneid").name, "%laneid");
  EXPECT_EQ(operand("sym+4").offset, 4);
  EXPECT_TRUE(operand("!%p2").negated);
  EXPECT_TRUE(operand("-%r2").minus);
  EXPECT_EQ(operand("_").kind, Operand::Kind::placeholder);
  const Operand pair = operand("%p1|_");
  EXPECT_EQ(pair.kind, Operand::Kind::predicate_pair);
  EXPECT_EQ(pair.parts.at(0).name, "%p1");
  EXPECT_EQ(pair.parts.at(1).kind, Operand::Kind::placeholder);
}

TEST(Operands, AddressesAndVectors) {
  EXPECT_EQ(operand("[sym+4]").name, "sym");
  EXPECT_EQ(operand("[%rd1-8]").offset, -8);
  EXPECT_EQ(operand("[%rd1+8+(2*3)]").offset, 14);
  EXPECT_TRUE(operand("[0x100]").name.empty());
  EXPECT_EQ(operand("[0x100]").offset, 256);
  const Operand tensor = operand("[%rd1, {%r1, %r2}]");
  EXPECT_EQ(tensor.kind, Operand::Kind::address);
  EXPECT_EQ(tensor.parts.at(0).parts.size(), 2U);
  const Operand vector = operand("{%r1, _, -1, 0f00000000}");
  ASSERT_EQ(vector.parts.size(), 4U);
  EXPECT_EQ(vector.parts[1].kind, Operand::Kind::placeholder);
  EXPECT_EQ(vector.parts[2].bits, ~std::uint64_t{0});
}

TEST(Operands, Constants) {
  EXPECT_EQ(operand("017").bits, 15U);
  EXPECT_EQ(operand("0b101U").bits, 5U);
  EXPECT_EQ(operand("0xFFFFFFFFFFFFFFFF").bits, ~std::uint64_t{0});
  EXPECT_EQ(operand("-9223372036854775808").bits, std::uint64_t{1} << 63U);
  EXPECT_EQ(operand("0f3F800000").kind, Operand::Kind::single);
  EXPECT_EQ(operand("-0f3F800000").bits, 0xBF800000U);
  EXPECT_EQ(operand("0d3FF0000000000000").bits, std::bit_cast<std::uint64_t>(1.0));
  EXPECT_EQ(operand("-1.5e1").bits, std::bit_cast<std::uint64_t>(-15.0));
  EXPECT_EQ(operand("0.").bits, 0U);
  EXPECT_EQ(operand("{-2., 1.e2}").parts.at(0).bits, std::bit_cast<std::uint64_t>(-2.0));
  EXPECT_EQ(operand("{-2., 1.e2}").parts.at(1).bits, std::bit_cast<std::uint64_t>(100.0));
  EXPECT_EQ(operand("1.5+0.5").bits, std::bit_cast<std::uint64_t>(2.0));
}

TEST(Operands, ConstantExpressions) {
  const auto value = [](const std::string& text) { return static_cast<std::int64_t>(operand(text).bits); };
  EXPECT_EQ(value("(2+3)*4"), 20);
  EXPECT_EQ(value("2+3*4"), 14);
  EXPECT_EQ(value("-7/2"), -3);
  EXPECT_EQ(value("-7 % 3"), -1);
  EXPECT_EQ(value("-1>>1"), -1);
  EXPECT_EQ(value("(.u64)-1>>63"), 1);
  EXPECT_EQ(value("1<<4|1"), 17);
  EXPECT_EQ(value("~0"), -1);
  EXPECT_EQ(value("!5"), 0);
  EXPECT_EQ(value("-1<1"), 1);
  EXPECT_EQ(value("-1<1U"), 0);
  EXPECT_EQ(value("1==2 ? 10 : 3>2 ? 20 : 30"), 20);
  EXPECT_EQ(value("1<<64"), 0);
  EXPECT_EQ(value("(-9223372036854775807-1)/-1"), std::numeric_limits<std::int64_t>::min());
  EXPECT_NE(problem_in_body("op 1/0;").find("divided by zero"), std::string::npos);
  EXPECT_NE(problem_in_body("op 0f00000000+1;").find("no part in an expression"), std::string::npos);
}

TEST(SourceLines, CallSitesAndNames) {
  const Function k = [] {
    Module module = parsed(kHead +
                           ".entry k()\n{\n.loc 1 19 3\n.loc 1 11 7, function_name $L1, inlined_at 1 19 3\n"
                           ".loc 3 34 9, function_name $L0+2, inlined_at 1 11 7\nnop;\n.loc 1 20 3\nret;\n}\n"
                           ".file 1 \"a.cu\"\n.section .debug_str\n{\n$L0:\n.b8 95,90,103,0\n$L1:\n.b8 102\n.b8 0\n}\n"
                           ".section .debug_abbrev { .b8 1 .b32 .debug_x .b64 $L0 }\n");
    return std::move(module.functions.at(0));
  }();
  const auto& nop = std::get<Instruction>(k.body.statements.at(0).what);
  const SourceLocation& place = k.sources.at(static_cast<std::size_t>(nop.source));
  EXPECT_EQ(place.file, 3);
  EXPECT_EQ(place.function, "g");
  ASSERT_TRUE(place.inlined_at);
  EXPECT_EQ(place.inlined_at->line, 11);
  EXPECT_EQ(place.inlined_at->function, "f");
  ASSERT_TRUE(place.inlined_at->inlined_at);
  EXPECT_EQ(place.inlined_at->inlined_at->line, 19);
  EXPECT_FALSE(place.inlined_at->inlined_at->inlined_at);
  const auto& ret = std::get<Instruction>(k.body.statements.at(1).what);
  EXPECT_EQ(k.sources.at(static_cast<std::size_t>(ret.source)).line, 20);
  EXPECT_EQ(instruction("nop;").source, -1);
}

TEST(SourceLines, ACallSiteThatNamesItselfEnds) {
  std::string locations;
  for (int i = 0; i < 100000; ++i) locations += ".loc 1 1 1, function_name f, inlined_at 1 1 1\n";
  EXPECT_EQ(body(locations).sources.size(), 100000U);
}

TEST(Errors, SayWhereAndWhat) {
  EXPECT_EQ(problem(kHead + ".entry k()\n{\n  ld.global.u32 %r1, [%rd1] foo;\n}\n"),
            "test.ptx:6:29: expected ',' or ';' after an operand, found 'foo' in \"ld.global.u32 %r1, [%rd1] foo;\"");
  EXPECT_EQ(problem("hello"), "test.ptx:1:1: expected '.version', found 'hello' in \"hello\"");
  EXPECT_EQ(problem(""), "test.ptx:1:1: expected '.version', found the end of the text");
}

TEST(Errors, EachKind) {
  const auto has = [](const std::string& text, const std::string& wanted) {
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
  };
  has(problem(".version nine"), "expected a version such as 9.0");
  has(problem(kHead + ".sparkle x;"), "found '.sparkle'");
  has(problem(kHead + ".global .q32 x;"), "expected a type");
  has(problem(kHead + ".global .align 3 .b32 x;"), "not a power of two");
  has(problem(kHead + ".global .b32 x[-1];"), "not negative");
  has(problem(kHead + ".global .b32 x[2] = {{1}};"), "more levels of braces");
  has(problem(kHead + ".entry k() { nop;"), "expected '}'");
  has(problem(kHead + ".entry k() .sparkle { nop; }"), "after the head of a function");
  has(problem(kHead + "/* never"), "does not end");
  has(problem(kHead + ".file 1 \"never"), "does not end on its line");
  has(problem_in_body("op 0f3F8;"), "8 hexadecimal digits");
  has(problem_in_body("op 99999999999999999999;"), "64 bits");
  has(problem_in_body("op 089;"), "64 bits");
  has(problem_in_body("op 12ab;"), "'12ab' is not a number");
  has(problem_in_body("op [%r1+%r2];"), "expected a constant, found '%r2'");
  has(problem_in_body("op #;"), "'#' is not a character of PTX");
  has(problem_in_body("op \x01;"), "'\\x01' is not a character");
  has(problem_in_body(".loc 1 2;"), "expected a column");
}

TEST(Errors, DepthIsBounded) {
  EXPECT_NE(problem_in_body(std::string(100000, '{')).find("nest deeper"), std::string::npos);
  EXPECT_NE(problem_in_body("op " + std::string(100000, '(') + ";").find("nests deeper"), std::string::npos);
  EXPECT_NE(problem_in_body("op " + std::string(100000, '-') + "1;").find("nests deeper"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "[a,";
  EXPECT_NE(problem_in_body("op " + nested).find("nest deeper"), std::string::npos);
  std::string choices;
  for (int i = 0; i < 100000; ++i) choices += "1?";
  EXPECT_NE(problem_in_body("op " + choices).find("nests deeper"), std::string::npos);
}

// Of the processor, so that a busy machine does not count.
double seconds_to_parse(int statements) {
  std::string text = kHead + ".entry k()\n{\n";
  for (int i = 0; i < statements; ++i)
    text += "\t.loc 1 " + std::to_string(i) +
            " 7\n\t@%p1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};\n";
  const std::clock_t begin = std::clock();
  const auto module = parse(text + "}\n", "large.ptx");
  EXPECT_TRUE(module);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(Speed, TimeGrowsWithTheText) {
  // 1.4 and 5.6 MB; a quadratic step anywhere would make it 16, every time. A neighbour that empties the caches between
  // the two is not there twice.
  double ratio = 16;
  for (int attempt = 0; attempt < 3 && ratio >= 10; ++attempt)
    ratio = seconds_to_parse(40000) / seconds_to_parse(10000);
  EXPECT_LT(ratio, 10);
  std::printf("four times the text takes %.1f times as long\n", ratio);
}

}  // namespace
}  // namespace flashmoe::vgpu::ptx
