// cuda:<n>: a GPU of this machine; rehearsal:cuda:<n>: the same way with the virtual GPU in its place.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "runtime/driver.hpp"
#include "workflow/device/card.hpp"
#include "workflow/device/kinds.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// What NVIDIA's kernel modules make, under Linux and under Windows' subsystem for it.
bool has_card_nodes() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) || std::filesystem::exists("/dev/dxg", ignored);
}

std::optional<DeviceSelector> with_ordinal(DeviceKind kind, const std::string& behind) {
  DeviceSelector device{.kind = kind};
  const char* end = behind.data() + behind.size();
  const auto [stop, error] = std::from_chars(behind.data(), end, device.ordinal);
  if (error != std::errc{} || stop != end || behind.empty() || device.ordinal < 0) return std::nullopt;
  return device;
}

// Whose driver answers decides what this is, not what it is called: no time of a virtual GPU is ever a card's.
std::optional<Result<DeviceSelector>> parse_cuda(const std::string& behind, const std::string& /*text*/) {
  auto device = with_ordinal(DeviceKind::cuda, behind);
  if (!device) return std::nullopt;
  if (runtime::is_virtual_driver(runtime::system_driver_library())) device->kind = DeviceKind::rehearsal;
  return *device;
}

std::optional<Result<DeviceSelector>> parse_rehearsal(const std::string& behind, const std::string& /*text*/) {
  const auto device = with_ordinal(DeviceKind::rehearsal, behind);
  if (!device) return std::nullopt;
  return *device;
}

std::string ordinal_of(const DeviceSelector& device) {
  return std::to_string(device.ordinal);
}

Capabilities cuda_capabilities() {
  return {.runs = Runs::cuda_code,
          .clock = ClockKind::measured,
          .counters = CounterKind::degraded,
          .needs_driver = true,
          .is_card = true};
}

Capabilities rehearsal_capabilities() {
  Capabilities can = cuda_capabilities();
  can.clock = ClockKind::rehearsed;
  can.needs_driver = false;
  return can;
}

Result<Done> card_available(const DeviceSelector& device) {
  const auto card = card_of(device);
  if (!card) return card.error();
  if (!card->rehearsal && !has_card_nodes())
    return Diagnostic{.message = fmt::format("{}: {} answers, but there is no NVIDIA device here (/dev/nvidiactl): a "
                                             "time taken there would be nobody's",
                                             device.to_string(), card->driver),
                      .fix = "give the container its GPU (docker run --gpus all), or use --device rehearsal:cuda:0",
                      .code = codes::environment_no_gpu};
  return Done{};
}

}  // namespace

const DeviceRow cuda_device{DeviceKind::cuda, "cuda:",    "cuda:<n> (cuda:0)", cuda_capabilities,
                            parse_cuda,       ordinal_of, card_available};

const DeviceRow rehearsal_device{DeviceKind::rehearsal,  "rehearsal:cuda:", "rehearsal:cuda:<n> (rehearsal:cuda:0)",
                                 rehearsal_capabilities, parse_rehearsal,   ordinal_of,
                                 card_available};

}  // namespace flashmoe::workflow
