#include "workflow/runner/hardening.hpp"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

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

// Root keeps CAP_SYS_PTRACE over every memory, so it goes, now and for anything executed later.
void drop_capabilities() {
  constexpr std::array dropped{CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_RAWIO, CAP_SYS_NICE};
  for (const int capability : dropped) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return;
  for (const int capability : dropped) {
    auto& word = data[static_cast<std::size_t>(capability) / 32];
    const std::uint32_t bit = std::uint32_t{1} << (static_cast<unsigned>(capability) % 32);
    word.effective &= ~bit;
    word.permitted &= ~bit;
    word.inheritable &= ~bit;
  }
  syscall(SYS_capset, &header, data.data());
}

void install_filter() {
  if (this_architecture == 0) return;
  constexpr std::uint16_t load = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint16_t answer = BPF_RET | BPF_K;
  const auto own_pid = static_cast<std::uint32_t>(getpid());
  // kill(2) stays for the process itself (abort, raise); the low word of the first argument is the process.
  std::array program{
      statement(load, offsetof(seccomp_data, arch)),
      jump(equal, this_architecture, 0, 10),
      statement(load, offsetof(seccomp_data, nr)),
      jump(equal, __NR_ptrace, 7, 0),
      jump(equal, __NR_process_vm_readv, 6, 0),
      jump(equal, __NR_process_vm_writev, 5, 0),
      jump(equal, __NR_pidfd_open, 4, 0),
      jump(equal, __NR_pidfd_send_signal, 3, 0),
      jump(equal, __NR_kill, 0, 3),
      statement(load, offsetof(seccomp_data, args)),
      jump(equal, own_pid, 1, 0),
      statement(answer, SECCOMP_RET_ERRNO | EPERM),
      statement(answer, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

}  // namespace

void forbid_reading_my_memory() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void forbid_touching_others() {
  drop_capabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  install_filter();
}

}  // namespace flashmoe::workflow
