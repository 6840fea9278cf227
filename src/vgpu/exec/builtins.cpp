// What device code calls without a body: printf, assert, malloc and free (CUDA C++ Programming Guide, sections on
// formatted output, assertion and dynamic global memory).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "vgpu/exec/calls.hpp"
#include "vgpu/exec/heap.hpp"
#include "vgpu/exec/lane_loop.hpp"

namespace flashmoe::vgpu::exec {

namespace {

constexpr std::size_t longest_string = 1 << 16;

// Host bytes behind a generic address of a lane; nullptr: not there.
[[nodiscard]] const std::uint8_t* at_generic(const Warp& warp, int lane, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t offset = address & ((std::uint64_t{1} << 56) - 1);
  switch (address >> 56) {
    case 0:
      return warp.cta->grid->memory->is_mapped(address, bytes) ? reinterpret_cast<const std::uint8_t*>(address)
                                                               : nullptr;
    case memory::shared_window >> 56:
      return offset + bytes <= warp.shared_bytes ? warp.shared + offset : nullptr;
    case memory::local_window >> 56:
      return offset + bytes <= warp.local_bytes_per_lane
                 ? warp.local.data() + static_cast<std::size_t>(lane) * warp.local_bytes_per_lane + offset
                 : nullptr;
    default:
      return nullptr;
  }
}

template <class T>
[[nodiscard]] std::optional<T> read(const Warp& warp, int lane, std::uint64_t address) {
  const std::uint8_t* const bytes = at_generic(warp, lane, address, sizeof(T));
  if (bytes == nullptr) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

[[nodiscard]] std::string read_string(const Warp& warp, int lane, std::uint64_t address) {
  std::string text;
  while (text.size() < longest_string) {
    const std::optional<char> c = read<char>(warp, lane, address + text.size());
    if (!c || *c == '\0') {
      break;
    }
    text += *c;
  }
  return text;
}

// The n-th argument of the call, or the place of the result.
[[nodiscard]] std::uint8_t* passed(const Warp& warp, const ir::Inst& call, int lane, bool is_return, std::uint32_t n) {
  const std::uint32_t* const list = warp.kernel->lists.data() + call.list;
  const std::uint32_t index = is_return ? n : list[0] + n;
  return warp.frame->parameters + static_cast<std::size_t>(lane) * warp.frame->area_bytes + list[2 + 3 * index];
}

template <class T>
[[nodiscard]] T argument(const Warp& warp, const ir::Inst& call, int lane, std::uint32_t n) {
  T value;
  std::memcpy(&value, passed(warp, call, lane, false, n), sizeof(T));
  return value;
}

template <class T>
void give_result(const Warp& warp, const ir::Inst& call, int lane, T value) {
  if (warp.kernel->lists[call.list] != 0) {
    std::memcpy(passed(warp, call, lane, true, 0), &value, sizeof(T));
  }
}

// Arguments lie one behind the other, each aligned to its own size; float comes as double, char and short as int.
class Arguments {
 public:
  Arguments(const Warp& warp, int lane, std::uint64_t address) : warp_(warp), lane_(lane), at_(address) {}

  template <class T>
  [[nodiscard]] T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const std::optional<T> value = read<T>(warp_, lane_, at_);
    at_ += sizeof(T);
    return value.value_or(T{});
  }

 private:
  const Warp& warp_;
  int lane_;
  std::uint64_t at_;
};

template <class T>
[[nodiscard]] std::string printed(const std::string& specification, T value) {
  char buffer[512];
  // The specification was checked piece by piece: flags, width, precision, length and this conversion.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  const int length = std::snprintf(buffer, sizeof(buffer), specification.c_str(), value);
#pragma GCC diagnostic pop
  return std::string(buffer, static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof(buffer)) - 1)));
}

// One conversion, `%-8.3lld` without its percent sign taken off the front of `format` from `at` on.
[[nodiscard]] std::string convert(const Warp& warp, int lane, const std::string& format, std::size_t& at,
                                  Arguments& arguments) {
  std::string specification = "%";
  while (at < format.size() && std::strchr("-+ #0123456789.*", format[at]) != nullptr) {
    if (format[at] == '*') {
      specification += std::to_string(arguments.next<std::int32_t>());
    } else {
      specification += format[at];
    }
    ++at;
  }
  bool wide = false;
  while (at < format.size() && std::strchr("hlLjzt", format[at]) != nullptr) {
    wide = wide || format[at] != 'h';
    ++at;
  }
  if (at >= format.size()) {
    return specification;
  }
  const char kind = format[at++];
  switch (kind) {
    case '%':
      return "%";
    case 'd':
    case 'i':
      return wide ? printed(specification + "lld", static_cast<long long>(arguments.next<std::int64_t>()))
                  : printed(specification + "d", arguments.next<std::int32_t>());
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return wide ? printed(specification + "ll" + kind,
                            static_cast<unsigned long long>(arguments.next<std::uint64_t>()))
                  : printed(specification + kind, arguments.next<std::uint32_t>());
    case 'c':
      return printed(specification + "c", arguments.next<std::int32_t>());
    case 'p':
      return fmt::format("{:#x}", arguments.next<std::uint64_t>());
    case 's':
      return printed(specification + "s", read_string(warp, lane, arguments.next<std::uint64_t>()).c_str());
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return printed(specification + kind, arguments.next<double>());
    default:
      return specification + kind;  // unknown: printed as it stands
  }
}

void vprintf(Warp& warp, const ir::Inst& call, int lane) {
  const std::string format = read_string(warp, lane, argument<std::uint64_t>(warp, call, lane, 0));
  Arguments arguments(warp, lane, argument<std::uint64_t>(warp, call, lane, 1));
  std::string text;
  std::int32_t conversions = 0;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    conversions += at + 1 < format.size() && format[at + 1] != '%' ? 1 : 0;
    text += convert(warp, lane, format, ++at, arguments);
  }
  Grid& grid = *warp.cta->grid;
  if (grid.launch->print != nullptr) {
    const std::lock_guard lock(grid.mutex);
    grid.launch->print(grid.launch->print_user, text.c_str());
  }
  give_result(warp, call, lane, conversions);
}

void assert_fail(Warp& warp, const ir::Inst& call, int lane) {
  const std::string message = read_string(warp, lane, argument<std::uint64_t>(warp, call, lane, 0));
  const std::string file = read_string(warp, lane, argument<std::uint64_t>(warp, call, lane, 1));
  const auto line = argument<std::uint32_t>(warp, call, lane, 2);
  const std::string function = read_string(warp, lane, argument<std::uint64_t>(warp, call, lane, 3));
  raise(warp, Fault::Kind::assertion, fmt::format("{}:{}: {}: assertion `{}` failed", file, line, function, message),
        lane);
}

void device_malloc(Warp& warp, const ir::Inst& call, int lane) {
  const auto bytes = argument<std::uint64_t>(warp, call, lane, 0);
  Grid& grid = *warp.cta->grid;
  const std::uint64_t address = grid.heap->allocate(bytes, "malloc in " + grid.kernel->name);
  warp.global_bytes = grid.memory->mapped_bytes();
  give_result(warp, call, lane, address);
}

void device_free(Warp& warp, const ir::Inst& call, int lane) {
  const auto address = argument<std::uint64_t>(warp, call, lane, 0);
  if (address == 0) {
    return;
  }
  const Result<Done> freed = warp.cta->grid->heap->free(address);
  if (!freed) {
    raise(warp, Fault::Kind::illegal_address, "free: " + freed.error().message, lane, address);
  }
}

}  // namespace

void run_builtin(Warp& warp, const ir::Inst& call, const ir::Function& function) {
  const std::string& name = function.builtin;
  for (std::uint32_t left = warp.exec; left != 0 && !warp.leave; left &= left - 1) {
    const int lane = first_lane(left);
    if (name == "vprintf") {
      vprintf(warp, call, lane);
    } else if (name == "__assertfail") {
      assert_fail(warp, call, lane);
    } else if (name == "malloc") {
      device_malloc(warp, call, lane);
    } else if (name == "free") {
      device_free(warp, call, lane);
    } else {
      raise(warp, Fault::Kind::illegal_instruction, fmt::format("calls {}, which has no body", name), lane);
    }
  }
}

}  // namespace flashmoe::vgpu::exec
