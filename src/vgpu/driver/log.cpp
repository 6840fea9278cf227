#include "vgpu/driver/log.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

namespace flashmoe::vgpu::driver {
namespace {

std::FILE* stream() {
  static std::FILE* const opened = [] {
    const char* const asked = std::getenv("VGPU_LOG");
    if (asked == nullptr || *asked == '\0' || std::string_view(asked) == "stderr") return stderr;
    if (std::string_view(asked) == "off") return static_cast<std::FILE*>(nullptr);
    std::FILE* const file = std::fopen(asked, "a");
    return file == nullptr ? stderr : file;
  }();
  return opened;
}

}  // namespace

void log_line(std::string_view text) {
  if (std::FILE* const out = stream()) {
    // One call per line, so that lines of several threads do not mix.
    std::fprintf(out, "vgpu: %.*s\n", static_cast<int>(text.size()), text.data());
    std::fflush(out);
  }
}

void log_once(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& said = *new std::set<std::string>;
  {
    const std::lock_guard lock(mutex);
    if (!said.insert(text).second) return;
  }
  log_line(text);
}

void log_call(std::string_view function) {
  static const bool wanted = [] {
    const char* const asked = std::getenv("VGPU_LOG_CALLS");
    return asked != nullptr && std::string_view(asked) == "1";
  }();
  if (wanted) log_line(function);
}

}  // namespace flashmoe::vgpu::driver
