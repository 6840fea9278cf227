// Every function that the library exports, as a few instructions of assembly: a jump to the function itself
// (implementations.hpp), or, while VGPU_TRACE asks for it, through trace.cpp. Assembly, because one text stands for six
// hundred functions whose arguments it must leave alone; x86-64 with the System V convention, as the rest of this
// library's host code.
#include <cstdint>

#include "vgpu/driver/trace.hpp"

// Arguments of integer class in six registers, then on the stack; at most one function takes a float, in %xmm0.
// %eax: the row of symbols.def. The layout is TracedCall's.
asm(R"(
.text
.hidden vgpu_tracing
.hidden vgpu_traced_call
.type vgpu_through_trace, @function
vgpu_through_trace:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $128, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq 16(%rbp), %r10
  movq %r10, 48(%rsp)
  movq 24(%rbp), %r10
  movq %r10, 56(%rsp)
  movq 32(%rbp), %r10
  movq %r10, 64(%rsp)
  movq 40(%rbp), %r10
  movq %r10, 72(%rsp)
  movq 48(%rbp), %r10
  movq %r10, 80(%rsp)
  movq 56(%rbp), %r10
  movq %r10, 88(%rsp)
  movq %xmm0, 96(%rsp)
  movl %eax, %edi
  movq %rsp, %rsi
  call vgpu_traced_call
  leave
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
.size vgpu_through_trace, . - vgpu_through_trace
.set vgpu_row, 0
)"
#define VGPU_SYMBOL(name, version, stream, symbol)             \
  ".globl " #symbol "\n.type " #symbol ", @function\n" #symbol \
  ":\n"                                                        \
  "  cmpb $0, vgpu_tracing(%rip)\n"                            \
  "  jne 1f\n"                                                 \
  "  jmp vgpu_does_" #symbol                                   \
  "\n"                                                         \
  "1:\n  movl $vgpu_row, %eax\n"                               \
  "  jmp vgpu_through_trace\n"                                 \
  ".size " #symbol ", . - " #symbol                            \
  "\n"                                                         \
  ".set vgpu_row, vgpu_row + 1\n"
#include "vgpu/driver/symbols.def"
#undef VGPU_SYMBOL
);

static_assert(sizeof(flashmoe::vgpu::driver::TracedCall) == 104 && sizeof(void*) == 8);
