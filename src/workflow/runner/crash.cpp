#include "workflow/runner/crash.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/text.hpp"

namespace flashmoe::workflow {
namespace {

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : symbol;
}

struct FaultReport {
  std::optional<std::uint64_t> address{};
  std::string module{};  // file of the code; empty: not known
  std::uint64_t module_offset = 0;
  std::string symbol{};
  std::uint64_t symbol_offset = 0;
};

FaultReport fault_in(const Json& line) {
  const auto number = [&](const char* key) -> std::optional<std::uint64_t> {
    const Json* found = field_in(line, key);
    return found != nullptr && found->is_number_unsigned() ? std::optional(found->get<std::uint64_t>()) : std::nullopt;
  };
  return {.address = number("address"),
          .module = text_in(line, "module"),
          .module_offset = number("module_offset").value_or(0),
          .symbol = text_in(line, "symbol"),
          .symbol_offset = number("symbol_offset").value_or(0)};
}

struct SourceLine {
  std::string function{};
  std::string place{};  // "kernel.cpp:12"
};

// addr2line prints the function and "file:line", "??" for what it does not know.
SourceLine source_line(const std::string& library, std::uint64_t offset) {
  const auto ran = run_process({.argv = {"addr2line", "-C", "-f", "-e", library, fmt::format("{:#x}", offset)},
                                .short_environment = true,
                                .confinement = Confinement{.readable = {library}},
                                .limit = std::chrono::seconds(5)});
  if (!ran || !ran->ok()) return {};
  std::istringstream lines(ran->out);
  SourceLine found;
  std::getline(lines, found.function);
  std::getline(lines, found.place);
  found.place = found.place.substr(0, found.place.find(' '));  // "kernel.cpp:12 (discriminator 3)"
  if (found.function.starts_with("??")) found.function.clear();
  if (found.place.starts_with("??") || found.place.ends_with(":?") || found.place.ends_with(":0")) found.place.clear();
  if (found.place.starts_with("./")) found.place.erase(0, 2);
  return found;
}

}  // namespace

std::string place_of(const std::string& last_words, const std::string& library) {
  const FaultReport fault = fault_in(bounded_json(last_words));
  constexpr std::size_t most = 200;
  std::string text;
  if (fault.address) text += fmt::format(" at address {:#x}", *fault.address);
  if (fault.module.empty()) return text;
  std::string frame;
  if (fault.module == library) {
    const SourceLine line = source_line(library, fault.module_offset);
    frame = line.function;
    if (!line.place.empty()) frame += (frame.empty() ? "" : " at ") + line.place;
  }
  if (frame.empty() && !fault.symbol.empty()) {
    frame = fmt::format("{}+{:#x}", demangled(fault.symbol), fault.symbol_offset);
  }
  if (frame.empty()) frame = fmt::format("offset {:#x}", fault.module_offset);
  if (fault.module != library) frame += " of " + std::filesystem::path(fault.module).filename().string();
  return text + ", in " + printable(frame.substr(0, most));
}

std::optional<std::uint64_t> memory_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

bool ran_out_of_memory(const Finished& how, std::optional<std::uint64_t> kills_before,
                       std::optional<std::uint64_t> kills_now) {
  if (how.signal == SIGKILL) return !kills_before || !kills_now || *kills_now > *kills_before;
  return how.signal == SIGABRT && how.err.find("std::bad_alloc") != std::string::npos;
}

}  // namespace flashmoe::workflow
