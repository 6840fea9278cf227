#include "support/process_limits.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FLASHMOE_RESERVES_TERABYTES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLASHMOE_RESERVES_TERABYTES 1
#endif

namespace flashmoe {
namespace {

#ifdef FLASHMOE_RESERVES_TERABYTES
constexpr bool memory_can_be_limited = false;
#else
constexpr bool memory_can_be_limited = true;
#endif

constexpr double share_of_memory = 0.75;
constexpr std::uint64_t further_tasks = 1024;

// The fourth field of loadavg is "running/all".
std::uint64_t tasks_now() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  std::uint64_t running = 0;
  std::uint64_t all = 0;
  char slash = 0;
  if (!(file >> load >> load >> load >> running >> slash >> all)) return 0;
  return all;
}

bool lower(decltype(RLIMIT_DATA) resource, std::uint64_t most) {
  rlimit limit{};
  if (most == 0) return true;
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  return setrlimit(resource, &limit) == 0;
}

void be_first_to_end() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t ignored = write(fd, "1000", 4);
  static_cast<void>(ignored);
  close(fd);
}

}  // namespace

ProcessLimits limits_for_foreign_code() {
  ProcessLimits limits;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (memory_can_be_limited && pages > 0 && page_bytes > 0) {
    limits.private_bytes =
        static_cast<std::uint64_t>(share_of_memory * static_cast<double>(pages) * static_cast<double>(page_bytes));
  }
  if (const std::uint64_t now = tasks_now(); now > 0) limits.tasks = now + further_tasks;
  return limits;
}

namespace detail {

bool enter_limits(const ProcessLimits& limits) {
  be_first_to_end();
  return lower(RLIMIT_DATA, limits.private_bytes) && lower(RLIMIT_NPROC, limits.tasks);
}

void drop_capabilities() {
  constexpr std::array kept{CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return;
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    if (std::find(kept.begin(), kept.end(), capability) != kept.end()) continue;
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    auto& word = data[static_cast<std::size_t>(capability) / 32];
    const std::uint32_t bit = std::uint32_t{1} << (static_cast<unsigned>(capability) % 32);
    word.effective &= ~bit;
    word.permitted &= ~bit;
    word.inheritable &= ~bit;
  }
  syscall(SYS_capset, &header, data.data());
}

}  // namespace detail
}  // namespace flashmoe
