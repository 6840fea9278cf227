#include "workflow/runner/hardening.hpp"

#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "support/process_limits.hpp"

namespace flashmoe::workflow {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t this_architecture = 0;
#endif

constexpr sock_filter statement(std::uint16_t code, std::uint32_t k) {
  return {code, 0, 0, k};
}
constexpr sock_filter jump(std::uint16_t code, std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
  return {code, yes, no, k};
}

// The program in pieces; each ends the filter with an answer or falls through to the next.
class Filter {
  static constexpr std::uint16_t load = BPF_LD | BPF_W | BPF_ABS;
  static constexpr std::uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K;
  static constexpr std::uint16_t at_least = BPF_JMP | BPF_JGE | BPF_K;
  static constexpr std::uint16_t any_bit = BPF_JMP | BPF_JSET | BPF_K;
  static constexpr std::uint16_t answer = BPF_RET | BPF_K;
  static constexpr std::uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;

 public:
  // Another architecture's numbers mean other calls: all of them are refused.
  Filter() {
    add({statement(load, offsetof(seccomp_data, arch)), jump(equal, this_architecture, 1, 0), statement(answer, refuse),
         statement(load, offsetof(seccomp_data, nr))});
    if (this_architecture == AUDIT_ARCH_X86_64) {
      constexpr std::uint32_t first_x32_call = 0x40000000;
      add({jump(at_least, first_x32_call, 0, 1), statement(answer, refuse)});
    }
  }
  void deny(std::uint32_t call, int error = EPERM) {
    add({jump(equal, call, 0, 1), statement(answer, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error))});
  }
  // Allowed with this value of the first argument (its low word) only.
  void allow_only(std::uint32_t call, std::uint32_t first_argument) { test_argument(call, equal, first_argument); }
  void allow_with_bit(std::uint32_t call, std::uint32_t bit) { test_argument(call, any_bit, bit); }
  std::vector<sock_filter> finished() && {
    add({statement(answer, SECCOMP_RET_ALLOW)});
    return std::move(program_);
  }

 private:
  void test_argument(std::uint32_t call, std::uint16_t test, std::uint32_t value) {
    add({jump(equal, call, 0, 4), statement(load, offsetof(seccomp_data, args)), jump(test, value, 0, 1),
         statement(answer, SECCOMP_RET_ALLOW), statement(answer, refuse)});
  }
  void add(std::initializer_list<sock_filter> instructions) {
    program_.insert(program_.end(), instructions.begin(), instructions.end());
  }
  std::vector<sock_filter> program_;
};

void deny_touching_others(Filter& filter, int process) {
  const auto own_pid = static_cast<std::uint32_t>(process);
  // Others' memory, and signals to others; abort and raise stay.
  for (const long call : {__NR_ptrace, __NR_process_vm_readv, __NR_process_vm_writev, __NR_pidfd_open,
                          __NR_pidfd_send_signal, __NR_tkill, __NR_rt_sigqueueinfo, __NR_rt_tgsigqueueinfo}) {
    filter.deny(static_cast<std::uint32_t>(call));
  }
  filter.allow_only(__NR_kill, own_pid);
  filter.allow_only(__NR_tgkill, own_pid);
  // Others' share of the machine: the baseline must not be slowed down.
  filter.deny(__NR_setpriority);
  for (const long call :
       {__NR_sched_setaffinity, __NR_sched_setscheduler, __NR_sched_setparam, __NR_sched_setattr, __NR_prlimit64}) {
    filter.allow_only(static_cast<std::uint32_t>(call), 0);
  }
}

void deny_processes(Filter& filter) {
  // Threads are counted, processes would not be. The C library falls back from clone3, whose flags are out of reach.
#ifdef __NR_fork
  filter.deny(__NR_fork);
  filter.deny(__NR_vfork);
#endif
  filter.deny(__NR_clone3, ENOSYS);
  filter.allow_with_bit(__NR_clone, CLONE_THREAD);
}

std::string in_hexadecimal(const std::vector<sock_filter>& program) {
  std::string text;
  for (const std::byte byte : std::as_bytes(std::span(program))) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

void forbid_reading_my_memory() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void forbid_touching_others() {
  flashmoe::detail::drop_capabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (this_architecture == 0) return;
  Filter filter;
  deny_touching_others(filter, getpid());
  deny_processes(filter);
  std::vector<sock_filter> program = std::move(filter).finished();
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole);
}

ForeignFilters filters_for(int process) {
  if (this_architecture == 0) return {};
  Filter others;
  Filter processes;
  deny_touching_others(others, process);
  deny_processes(processes);
  return {.system_call = __NR_seccomp,
          .touching_others = in_hexadecimal(std::move(others).finished()),
          .processes = in_hexadecimal(std::move(processes).finished())};
}

}  // namespace flashmoe::workflow
