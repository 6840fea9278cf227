#include "workflow/runner/fault.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace flashmoe::workflow {
namespace {

// All that the handler may touch.
int report_fd = -1;
const Mapping* inputs_seen = nullptr;
const Mapping* outputs_seen = nullptr;
std::array<char, 1024> library_path{};

constexpr std::size_t most_name = 160;
constexpr int most_frames = 32;

// A line of JSON without an allocation.
class Line {
 public:
  void text(std::string_view what) {
    const std::size_t room = std::min(what.size(), bytes_.size() - used_);
    std::memcpy(bytes_.data() + used_, what.data(), room);
    used_ += room;
  }
  void number(std::uint64_t value) {
    std::array<char, 24> digits{};
    std::size_t n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    std::reverse(digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(n));
    text({digits.data(), n});
  }
  // Names come from what the kernel is made of: only what needs no escape is let through.
  void name(const char* what) {
    for (std::size_t i = 0; what != nullptr && what[i] != '\0' && i < most_name; ++i) {
      const bool is_plain = what[i] > ' ' && what[i] <= '~' && what[i] != '"' && what[i] != '\\';
      text({is_plain ? &what[i] : "?", 1});
    }
  }
  void send(int fd) const {
    const ssize_t ignored = write(fd, bytes_.data(), used_);
    static_cast<void>(ignored);
  }

 private:
  std::array<char, 1024> bytes_{};
  std::size_t used_ = 0;
};

std::uintptr_t program_counter(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<std::uintptr_t>(machine.pc);
#else
  static_cast<void>(machine);
  return 0;
#endif
}

struct Frame {
  Dl_info info{};
  std::uintptr_t at = 0;
  bool is_known = false;
  bool is_in_library = false;
};

Frame frame_at(std::uintptr_t address) {
  Frame frame{.at = address};
  frame.is_known = address != 0 && dladdr(reinterpret_cast<void*>(address), &frame.info) != 0;
  frame.is_in_library = frame.is_known && frame.info.dli_fname != nullptr && library_path[0] != '\0' &&
                        std::strcmp(frame.info.dli_fname, library_path.data()) == 0;
  return frame;
}

// Where the instruction is, or, when that is in a library of others, who of the kernel called it. A stack that is
// beyond reading ends the process here, without last words.
Frame blamed_frame(std::uintptr_t address) {
  const Frame first = frame_at(address);
  if (first.is_in_library || !first.is_known) return first;
  std::array<void*, most_frames> stack{};
  const int count = backtrace(stack.data(), most_frames);
  for (int i = 0; i < count; ++i) {
    // A return address is behind its call.
    const Frame caller = frame_at(reinterpret_cast<std::uintptr_t>(stack[static_cast<std::size_t>(i)]) - 1);
    if (caller.is_in_library) return caller;
  }
  return first;
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  const char* region = "other";
  std::size_t offset = 0;
  const auto inside = [&](const Mapping* mapping, const char* name) {
    if (mapping && mapping->data && address >= mapping->data && address < mapping->data + mapping->bytes) {
      region = name;
      offset = static_cast<std::size_t>(address - mapping->data);
    }
  };
  inside(inputs_seen, "inputs");
  inside(outputs_seen, "outputs");
  Line line;
  line.text(R"({"fault":true,"signal":)");
  line.number(static_cast<std::uint64_t>(signal_number));
  line.text(R"(,"region":")");
  line.text(region);
  line.text(R"(","offset":)");
  line.number(offset);
  if (signal_number != SIGABRT) {
    line.text(R"(,"address":)");
    line.number(reinterpret_cast<std::uintptr_t>(address));
  }
  const Frame frame = blamed_frame(program_counter(context));
  if (frame.is_known) {
    line.text(R"(,"module":")");
    line.name(frame.info.dli_fname);
    line.text(R"(","module_offset":)");
    line.number(frame.at - reinterpret_cast<std::uintptr_t>(frame.info.dli_fbase));
    if (frame.info.dli_sname != nullptr) {
      line.text(R"(,"symbol":")");
      line.name(frame.info.dli_sname);
      line.text(R"(","symbol_offset":)");
      line.number(frame.at - reinterpret_cast<std::uintptr_t>(frame.info.dli_saddr));
    }
  }
  line.text("}\n");
  line.send(report_fd);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void report_faults(int fd, const Mapping* inputs, const Mapping* outputs) {
  report_fd = fd;
  inputs_seen = inputs;
  outputs_seen = outputs;
  // The first call loads the unwinder, which a handler may not.
  std::array<void*, 1> first{};
  static_cast<void>(backtrace(first.data(), 1));
  static std::array<std::byte, 65536> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(number, &action, nullptr);
}

void report_faults_in(const std::string& library) {
  const std::size_t length = std::min(library.size(), library_path.size() - 1);
  std::memcpy(library_path.data(), library.data(), length);
  library_path[length] = '\0';
}

}  // namespace flashmoe::workflow
