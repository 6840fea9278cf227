#include "vgpu/nvml/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "support/whole_file.hpp"

namespace flashmoe::vgpu::nvml {
namespace {

struct Reason {
  std::string_view word;
  std::uint64_t bit;
  bool lowers_clocks;
};
// NVML API Reference Guide, nvmlClocksEventReasons
constexpr Reason reasons[] = {
    {"idle", 0x1, false},
    {"application", 0x2, false},
    {"power", 0x4, true},
    {"hardware", 0x8, true},
    {"sync", 0x10, true},
    {"thermal", 0x20, true},
    {"hardware_thermal", 0x40, true},
    {"power_brake", 0x80, true},
    {"display", 0x100, true},
    {"board", 0x200, true},
    {"reliability", 0x400, true},
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The pieces between separators, trimmed, empty ones left out.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const auto end = text.find_first_of(separators);
    if (const auto piece = trimmed(text.substr(0, end)); !piece.empty()) pieces.push_back(piece);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return pieces;
}

Diagnostic wrong(std::string_view setting, std::string_view why) {
  return {.message = fmt::format("VGPU_NVML: {}: {}", setting, why),
          .fix =
              "VGPU_NVML=\"throttle=power;other_process=4242:1024;temperature=84;unsupported=power,utilization;"
              "driver=525.60.13\""};
}

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

Result<Done> read_throttle(Settings& settings, std::string_view setting, std::string_view value) {
  for (const auto word : split(value, ",")) {
    const auto* const reason =
        std::find_if(std::begin(reasons), std::end(reasons), [&](const Reason& one) { return one.word == word; });
    if (reason == std::end(reasons))
      return wrong(setting, fmt::format("no reason \"{}\": idle, application, power, hardware, sync, thermal, "
                                        "hardware_thermal, power_brake, display, board, reliability",
                                        word));
    settings.reasons |= reason->bit;
    settings.is_throttled = settings.is_throttled || reason->lowers_clocks;
  }
  return Done{};
}

Result<Done> read_process(Settings& settings, std::string_view setting, std::string_view value) {
  constexpr std::uint64_t most_mebibytes = std::uint64_t{1} << 24U;
  const auto colon = value.find(':');
  OtherProcess process;
  std::uint64_t mebibytes = 0;
  if (!read_number(value.substr(0, colon), process.pid) ||
      (colon != std::string_view::npos && !read_number(value.substr(colon + 1), mebibytes)) ||
      mebibytes > most_mebibytes)
    return wrong(setting, "wanted: process id, colon, MiB of the card's memory");
  process.memory_bytes = mebibytes << 20U;
  settings.others.push_back(process);
  return Done{};
}

Result<Done> read_unsupported(Settings& settings, std::string_view setting, std::string_view value) {
  for (const auto word : split(value, ",")) {
    if (std::find(std::begin(questions), std::end(questions), word) == std::end(questions))
      return wrong(setting, fmt::format("nothing is called \"{}\": {}", word, fmt::join(questions, ", ")));
    settings.unsupported.emplace(word);
  }
  return Done{};
}

// 100 kilowatts and as many degrees are nobody's, and what follows from them stays within an unsigned.
Result<Done> read_unsigned(std::optional<unsigned>& to, std::string_view setting, std::string_view value) {
  constexpr unsigned most = 100000;
  unsigned number = 0;
  if (!read_number(value, number) || number > most) return wrong(setting, "wanted: a number up to 100000");
  to = number;
  return Done{};
}

Result<Done> read_switch(std::optional<bool>& to, std::string_view setting, std::string_view value) {
  if (value != "on" && value != "off") return wrong(setting, "wanted: on or off");
  to = value == "on";
  return Done{};
}

Result<Done> read_setting(Settings& settings, std::string_view setting) {
  const auto equals = setting.find('=');
  if (equals == std::string_view::npos) return wrong(setting, "wanted: name=value");
  const auto name = trimmed(setting.substr(0, equals)), value = trimmed(setting.substr(equals + 1));
  if (name == "throttle") return read_throttle(settings, setting, value);
  if (name == "other_process") return read_process(settings, setting, value);
  if (name == "unsupported") return read_unsupported(settings, setting, value);
  if (name == "sm_clock") return read_unsigned(settings.sm_clock_mhz, setting, value);
  if (name == "temperature") return read_unsigned(settings.temperature_celsius, setting, value);
  if (name == "power") return read_unsigned(settings.power_watts, setting, value);
  if (name == "limit") return read_unsigned(settings.limit_watts, setting, value);
  if (name == "utilization") return read_unsigned(settings.utilization_percent, setting, value);
  if (name == "ecc") return read_switch(settings.ecc, setting, value);
  if (name == "mig") return read_switch(settings.mig, setting, value);
  if (name == "persistence") return read_switch(settings.persistence, setting, value);
  if (name == "driver") {
    if (value.empty() || value.size() > 40 || value.find_first_not_of("0123456789.") != std::string_view::npos)
      return wrong(setting, "wanted: a version such as 525.60.13");
    settings.driver = value;
    return Done{};
  }
  if (name == "fault") {
    settings.is_lost = value == "lost";
    settings.is_loaded = value != "not_loaded";
    if (!settings.is_lost && settings.is_loaded) return wrong(setting, "wanted: lost or not_loaded");
    return Done{};
  }
  return wrong(setting, "there is no such setting");
}

}  // namespace

Result<Settings> parse_settings(std::string_view text) {
  Settings settings;
  for (const auto setting : split(text, ";\n"))
    if (auto read = read_setting(settings, setting); !read) return read.error();
  return settings;
}

Result<Settings> current_settings() {
  const char* const value = std::getenv("VGPU_NVML");
  if (value == nullptr) return Settings{};
  if (*value != '@') return parse_settings(value);
  const auto text = whole_file(value + 1);
  if (!text)
    return Diagnostic{.message = fmt::format("VGPU_NVML={}: the file cannot be read", value),
                      .fix = "VGPU_NVML=@<file that exists>"};
  return parse_settings(*text);
}

}  // namespace flashmoe::vgpu::nvml
