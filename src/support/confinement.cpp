#include "support/confinement.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flashmoe {
namespace {

// linux/landlock.h of an older toolchain lacks what a newer kernel can do: the ABI is stated here (man 7 landlock).
struct RulesetAttributes {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;  // from version 4
  std::uint64_t scoped;              // from version 6
};
struct [[gnu::packed]] PathRule {
  std::uint64_t allowed_access;
  std::int32_t parent_fd;
};
constexpr long create_ruleset = 444;
constexpr long add_rule = 445;
constexpr long restrict_self = 446;
constexpr int path_beneath = 1;
constexpr std::uint32_t ask_version = 1;

constexpr std::uint64_t execute = 1U << 0;
constexpr std::uint64_t write_file = 1U << 1;
constexpr std::uint64_t read_file = 1U << 2;
constexpr std::uint64_t read_directory = 1U << 3;
constexpr std::uint64_t all_of_version_1 = (1U << 13) - 1;
constexpr std::uint64_t refer = 1U << 13;     // from version 2
constexpr std::uint64_t truncate = 1U << 14;  // from version 3
constexpr std::uint64_t file_rights = execute | write_file | read_file | truncate;
constexpr std::uint64_t reading = execute | read_file | read_directory;
constexpr std::uint64_t all_tcp = 3;     // bind, connect
constexpr std::uint64_t all_scopes = 3;  // abstract sockets, signals

std::uint64_t rights_of(int version) {
  return all_of_version_1 | (version >= 2 ? refer : 0) | (version >= 3 ? truncate : 0);
}

void allow(int ruleset, const std::string& path, std::uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {};
  if (fstat(fd, &status) == 0) {
    if (!S_ISDIR(status.st_mode)) rights &= file_rights;
    const PathRule rule{rights, fd};
    syscall(add_rule, ruleset, path_beneath, &rule, 0);
  }
  close(fd);
}

// Programs, libraries, and what the C library asks the system for.
constexpr std::array system_paths{"/usr",
                                  "/lib",
                                  "/lib32",
                                  "/lib64",
                                  "/bin",
                                  "/sbin",
                                  "/opt",
                                  "/nix/store",
                                  "/proc",
                                  "/sys",
                                  "/dev/null",
                                  "/dev/zero",
                                  "/dev/random",
                                  "/dev/urandom",
                                  "/etc/ld.so.cache",
                                  "/etc/ld.so.conf",
                                  "/etc/ld.so.conf.d",
                                  "/etc/localtime",
                                  "/etc/nsswitch.conf",
                                  "/etc/passwd",
                                  "/etc/alternatives"};

#if defined(__x86_64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t this_architecture = 0;
#endif

// No socket of any family, and no io_uring, which could open one behind the filter's back; nor what two processes can
// share without a file: System V memory, queues and semaphores, message queues, the keyring. A base and a candidate by
// one author would hand results to each other.
constexpr std::array<long, 10> forbidden_calls{__NR_socket, __NR_io_uring_setup, __NR_shmget,  __NR_shmat,
                                               __NR_msgget, __NR_semget,         __NR_mq_open, __NR_add_key,
                                               __NR_keyctl, __NR_request_key};

// Calls by another architecture's numbers are refused.
bool forbid_calls() {
  if (this_architecture == 0) return false;
  constexpr std::uint16_t load = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint16_t answer = BPF_RET | BPF_K;
  constexpr std::uint16_t at_least = BPF_JMP | BPF_JGE | BPF_K;
  constexpr std::uint32_t first_x32_call = 0x40000000;  // no call of any architecture has such a number otherwise
  constexpr auto count = static_cast<std::uint8_t>(forbidden_calls.size());
  std::array<sock_filter, forbidden_calls.size() + 6> program{{{load, 0, 0, offsetof(seccomp_data, arch)},
                                                               {equal, 0, count + 3, this_architecture},
                                                               {load, 0, 0, offsetof(seccomp_data, nr)},
                                                               {at_least, count + 1, 0, first_x32_call}}};
  for (std::uint8_t i = 0; i < count; ++i) {
    program.at(4U + i) = {equal, static_cast<std::uint8_t>(count - i), 0,
                          static_cast<std::uint32_t>(forbidden_calls.at(i))};
  }
  program.at(4U + count) = {answer, 0, 0, SECCOMP_RET_ALLOW};
  program.at(5U + count) = {answer, 0, 0, SECCOMP_RET_ERRNO | EACCES};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

int landlock_version() {
  const long version = syscall(create_ruleset, nullptr, 0, ask_version);
  return version > 0 ? static_cast<int>(version) : 0;
}

std::string confinement_here() {
  const int version = landlock_version();
  const std::string files = version > 0 ? "Landlock " + std::to_string(version) : "not confined (no Landlock)";
  return "files: " + files + "; network: " + (this_architecture != 0 ? "seccomp" : "not confined");
}

std::vector<std::string> short_environment() {
  constexpr std::array<std::string_view, 13> names{"PATH",
                                                   "HOME",
                                                   "LANG",
                                                   "LANGUAGE",
                                                   "TZ",
                                                   "TMPDIR",
                                                   "LD_LIBRARY_PATH",
                                                   "XDG_CACHE_HOME",
                                                   "CPATH",
                                                   "C_INCLUDE_PATH",
                                                   "CPLUS_INCLUDE_PATH",
                                                   "LIBRARY_PATH",
                                                   "SOURCE_DATE_EPOCH"};
  // Of the toolkits, of ours, and of the sanitizers that a build may have.
  constexpr std::array<std::string_view, 12> beginnings{"LC_",       "OMP_",  "CUDA_", "NVIDIA_", "NVCC_", "FLASHMOE_",
                                                        "CUDADENT_", "VGPU_", "ASAN_", "UBSAN_",  "LSAN_", "TSAN_"};
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool listed = std::find(names.begin(), names.end(), name) != names.end() ||
                        std::any_of(beginnings.begin(), beginnings.end(),
                                    [&](std::string_view beginning) { return name.starts_with(beginning); });
    if (listed) kept.emplace_back(text);
  }
  return kept;
}

namespace detail {
namespace {

int make_ruleset(const Confinement& confinement) {
  const int version = landlock_version();
  if (version == 0) return -1;
  const RulesetAttributes attributes{rights_of(version), all_tcp, all_scopes};
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(syscall(create_ruleset, &attributes, size, 0));  // closed by exec
  if (ruleset < 0) return -1;
  for (const char* path : system_paths) allow(ruleset, path, reading);
  for (const std::string& path : confinement.readable) allow(ruleset, path, reading);
  allow(ruleset, "/dev/null", (read_file | write_file | truncate) & rights_of(version));
  for (const std::string& path : confinement.writable) allow(ruleset, path, rights_of(version));
  return ruleset;
}

}  // namespace

Cage make_cage(const Confinement& confinement) {
  return {.ruleset = make_ruleset(confinement), .limits = limits_for_foreign_code()};
}

bool enter(const Cage& cage) {
  if (!enter_limits(cage.limits)) return false;
  drop_capabilities();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (cage.ruleset >= 0 && syscall(restrict_self, cage.ruleset, 0) != 0) return false;
  return forbid_calls() || this_architecture == 0;
}

}  // namespace detail
}  // namespace flashmoe
