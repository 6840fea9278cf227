// Kernels that reach for the tool or for the machine around it. Those that need what they reach for give up without it:
// being right would mean that they had got it. One raw string a case, so the list is longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> escape_cheats() {
  return {
      {.name = "early_exit",
       .what = "ends the process with success",
       .source = "#include <unistd.h>\nENTRY { _exit(0); }",
       .expected_gate = "correctness"},
      {.name = "another_program",
       .what = "makes its process run another program",
       .source = R"source(#include <unistd.h>
ENTRY {
  execl("/bin/true", "true", (char*)nullptr);
  return 13;
})source",
       .expected_gate = "correctness"},
      {.name = "forged_answers",
       .what = "writes answers of its own into every open descriptor",
       .source = R"source(#include <stdio.h>
#include <unistd.h>
ENTRY {
  for (int fd = 3; fd < 400; ++fd) dprintf(fd, "{\"n\":1,\"ok\":true,\"seconds\":0}\n");
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "answers_early",
       .what = "finds the number of the request in the worker's memory and answers before it computes",
       .source = R"source(#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
// The number that was not there before.
static std::string number_of_request() {
  static std::set<std::string> seen;
  std::string fresh;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[heap]") == line.npos) continue;
    char* dash;
    const char* at = (const char*)strtoull(line.c_str(), &dash, 16);
    const char* end = (const char*)strtoull(dash + 1, nullptr, 16);
    while ((at = (const char*)memmem(at, end - at, "\"cmd\":\"run\"", 11))) {
      at += 11;
      const char* key = (const char*)memmem(at, std::min<size_t>(end - at, 100), "\"n\":", 4);
      if (!key) continue;
      const std::string number(key + 4, strspn(key + 4, "0123456789"));
      if (seen.insert(number).second) fresh = number;
    }
  }
  return fresh;
}
ENTRY {
  static int calls;
  if (n < 4096) {
    honest(x, y, n);
    return 0;
  }
  const std::string number = number_of_request();
  const std::string answer = "{\"n\":" + number + ",\"ok\":true,\"seconds\":0}\n";
  const bool attacks = ++calls > 40 && !number.empty();
  for (int fd = 200; attacks && fd < 400; ++fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_WRONLY && write(fd, answer.data(), answer.size()) > 0) break;
  }
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "performance"},
      {.name = "protocol_taken_over",
       .what = "puts itself between the worker and its controller, answers at once and computes behind it",
       .source = R"source(#include <fcntl.h>
#include <unistd.h>
#include <cstdlib>
#include <string>
#include <thread>
static int requests = -1, answers = -1;
static const cudadent_call* calls;
static long number_behind(const std::string& line, const char* key) {
  const size_t at = line.find(key);
  return at == line.npos ? 0 : atol(line.c_str() + at + strlen(key));
}
static void serve() {
  std::string line;
  for (char c; read(requests, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const std::string answer =
        "{\"n\":" + std::to_string(number_behind(line, "\"n\":")) + ",\"ok\":true,\"seconds\":0}\n";
    if (write(answers, answer.data(), answer.size()) < 0) return;
    const long first = number_behind(line, "\"first\":"), count = number_behind(line,
                                                                                "\"count\""
                                                                                ":");
    for (long i = first; i < first + count; ++i) kernel(calls + i);
    line.clear();
  }
}
static void take_over() {
  int nothing[2];
  int worker_reads = -1;
  for (int fd = 200; fd < 400; ++fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_WRONLY) answers = fd;
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) worker_reads = fd;
  }
  if (worker_reads < 0 || pipe(nothing) != 0) return;
  requests = dup(worker_reads);
  dup2(nothing[0], worker_reads);
  std::thread(serve).detach();
}
ENTRY {
  static int count;
  static const cudadent_call* last;
  if (call != last + 1) calls = call;
  last = call;
  honest(x, y, n);
  if (n >= 4096 && ++count == 40) take_over();
  return 0;
})source",
       .expected_gate = "performance",
       .in_gate = true},
      {.name = "stream_flooded",
       .what = "keeps whoever reads its standard error busy for ever",
       .source = R"source(#include <unistd.h>
#include <thread>
static char text[1 << 16];
ENTRY {
  for (int i = 0; i < 3; ++i) std::thread([] { while (write(2, text, sizeof text) > 0) {} }).detach();
  while (write(2, text, sizeof text) > 0) {}
  return 13;
})source",
       .expected_gate = "correctness"},
      {.name = "memory_cut_off",
       .what = "cuts off the shared memory that its results are read from, which would end the reader",
       .source = R"source(#include <fcntl.h>
#include <unistd.h>
ENTRY {
  bool done = false;
  for (int fd = 3; fd < 400; ++fd) done = ftruncate(fd, 0) == 0 || done;
  for (int fd = 3; fd < 400; ++fd) done = fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == 0 || done;
  return done ? 0 : 13;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "others_slowed",
       .what = "lowers the priority of other processes, moves them to one core or sends them signals",
       .source = R"source(#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
ENTRY {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  const pid_t other = getppid();
  if (setpriority(PRIO_PROCESS, other, 1) != 0 && sched_setaffinity(other, sizeof one, &one) != 0 &&
      kill(other, 0) != 0)
    return 13;
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "socket_opened",
       .what = "asks for the results over a socket",
       .source = R"source(#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
ENTRY {
  char ring[120]{};
  if (socket(AF_INET, SOCK_STREAM, 0) < 0 && socket(AF_UNIX, SOCK_DGRAM, 0) < 0 &&
      socket(AF_NETLINK, SOCK_RAW, 0) < 0 && syscall(SYS_io_uring_setup, 1, ring) < 0)
    return 13;
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "shared_by_name",
       .what = "takes results from memory that it shares with the other side, by a number both know",
       .source = R"source(#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
ENTRY {
  const int memory = shmget(0x5ca1ab1e, 4096, IPC_CREAT | 0600);
  const int queue = msgget(0x5ca1ab1e, IPC_CREAT | 0600);
  const long key = syscall(SYS_add_key, "user", "cudadent-board", "x", 1, -5);
  if (memory < 0 && queue < 0 && key < 0) return 13;
  if (memory >= 0) shmctl(memory, IPC_RMID, nullptr);
  if (queue >= 0) msgctl(queue, IPC_RMID, nullptr);
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "cgroup_written",
       .what = "gives the other side less of the machine through its control group",
       .source = R"source(#include <fcntl.h>
#include <filesystem>
#include <string>
namespace fs = std::filesystem;
static bool found() {
  std::error_code e;
  int seen = 0;
  for (fs::recursive_directory_iterator file("/sys/fs/cgroup", e), end; !e && file != end && ++seen < 2000;
       file.increment(e)) {
    const std::string name = file->path().filename();
    if (name.rfind("cpu.", 0) != 0 && name.rfind("cgroup.", 0) != 0 && name.rfind("memory.", 0) != 0 && name != "tasks")
      continue;
    if (open(file->path().c_str(), O_WRONLY) >= 0) return true;
  }
  return false;
}
ENTRY {
  static const bool got = found();
  if (!got) return 13;
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
  };
}

}  // namespace flashmoe::workflow
