#include "vgpu/driver/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "vgpu/driver/entry_points.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/state.hpp"

namespace flashmoe::vgpu::driver {
namespace {

using Json = nlohmann::ordered_json;

int open_trace() {
  const char* const path = std::getenv("VGPU_TRACE");
  if (path == nullptr || *path == '\0') return -1;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) log_line(fmt::format("VGPU_TRACE={} cannot be written: there will be no trace", path));
  return file;
}

const int trace_file = open_trace();

// Names of arguments by function; the variants for another default stream take what the function itself takes.
const std::string* arguments_of(std::string_view function) {
  static const auto& table = *new std::map<std::string, std::string, std::less<>>{
#define VGPU_ARGUMENTS(name, text) {#name, text},
#include "vgpu/driver/trace_arguments.def"
#undef VGPU_ARGUMENTS
  };
  for (const std::string_view suffix : {"_ptsz", "_ptds"})
    if (function.ends_with(suffix)) function.remove_suffix(suffix.size());
  const auto found = table.find(function);
  return found == table.end() ? nullptr : &found->second;
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:#x}", value);
}

// The arguments that were handed over. What the function writes (*) is added by add_outputs.
Json inputs(std::string_view names, const TracedCall& call) {
  Json arguments = Json::object();
  for (std::size_t i = 0; !names.empty(); ++i) {
    const auto name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const std::uintptr_t word = call.words[i];
    const std::string bare(name.substr(1));
    switch (name.front()) {
      case '-':
      case '*':
        break;
      case '#':
        arguments[bare] = word;
        break;
      case '%':
        arguments[bare] = static_cast<int>(word);
        break;
      case '<':
        if (word != 0) arguments[bare] = *reinterpret_cast<const int*>(word);
        break;
      case '$':
        if (word != 0) arguments[bare] = reinterpret_cast<const char*>(word);
        break;
      case '@':
        if (word != 0)
          arguments[bare] =
              hex(reinterpret_cast<std::uintptr_t>(reinterpret_cast<const CUlaunchConfig*>(word)->hStream));
        break;
      default:
        arguments[std::string(name)] = hex(word);
    }
  }
  return arguments;
}

void add_outputs(std::string_view names, const TracedCall& call, Json& arguments) {
  for (std::size_t i = 0; !names.empty(); ++i) {
    const auto name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (name.front() == '*' && call.words[i] != 0)
      arguments[std::string(name.substr(1))] = hex(*reinterpret_cast<const std::uint64_t*>(call.words[i]));
  }
}

Json state_met() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  Json captures = Json::array();
  all.for_each_stream([&](Stream& stream) {
    if (stream.capture == nullptr) return;
    captures.push_back({{"stream", hex(reinterpret_cast<std::uintptr_t>(&stream))},
                        {"mode", static_cast<int>(stream.capture_mode)},
                        {"own", stream.capture_thread == std::this_thread::get_id()},
                        {"broken", stream.is_capture_broken}});
  });
  return {{"initialised", all.machine != nullptr},
          {"context", hex(reinterpret_cast<std::uintptr_t>(current_context()))},
          {"thread_mode", static_cast<int>(thread_capture_mode())},
          {"captures", std::move(captures)}};
}

int perform(const EntryPoint& point, const TracedCall& call) {
  using Word = std::uintptr_t;
  const auto* const w = call.words;
  const auto function =
      reinterpret_cast<int (*)(Word, Word, Word, Word, Word, Word, double, Word, Word, Word, Word, Word, Word)>(
          point.implemented);
  return function(w[0], w[1], w[2], w[3], w[4], w[5], call.first_float, w[6], w[7], w[8], w[9], w[10], w[11]);
}

}  // namespace
}  // namespace flashmoe::vgpu::driver

using namespace flashmoe::vgpu::driver;

const bool vgpu_tracing = trace_file >= 0;

int vgpu_traced_call(unsigned row, const TracedCall* call) {
  static std::atomic<std::uint64_t> next{1};
  const EntryPoint point = entry_point(row);
  const std::uint64_t sequence = next++;
  Json line;
  const std::string* const names = arguments_of(point.exported);
  try {
    line = {{"sequence", sequence},
            {"process", getpid()},
            {"thread", syscall(SYS_gettid)},
            {"call", point.exported},
            {"arguments", names != nullptr ? inputs(*names, *call) : Json::object()},
            {"met", state_met()}};
  } catch (const std::exception&) {  // no memory: the call matters more than its line
    return perform(point, *call);
  }
  const int result = perform(point, *call);
  try {
    line["result"] = result;
    if (result == CUDA_SUCCESS && names != nullptr) add_outputs(*names, *call, line["arguments"]);
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    // Before the caller goes on, so that what one thread made is in the file before another one uses it.
    if (write(trace_file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      log_once("VGPU_TRACE: a line could not be written");
  } catch (const std::exception&) {
    log_once("VGPU_TRACE: a line is missing");
  }
  return result;
}
