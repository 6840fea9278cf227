#include "workflow/runner/gpu_entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/device.hpp"
#include "support/sha256.hpp"
#include "workflow/runner/element.hpp"
#include "workflow/runner/hardening.hpp"

namespace flashmoe::workflow {
namespace {

// Bytes from the first element to behind the last, gaps of the strides included.
std::size_t extent_bytes(const cudadent_tensor& tensor) {
  std::int64_t last = 0;
  for (std::int32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
    last += (tensor.shape[axis] - 1) * tensor.stride[axis];
  }
  return static_cast<std::size_t>(last + 1) * bytes_per_element(static_cast<cudadent_dtype>(tensor.dtype));
}

// A scalar argument as the kernel's ABI wants it: an i64 of 5 is 8 bytes.
Result<std::uint64_t> scalar_bits(const LaunchValue& value) {
  std::uint64_t bits = 0;
  const auto put = [&](auto number) { std::memcpy(&bits, &number, sizeof number); };
  if (value.type == "i32") {
    put(static_cast<std::int32_t>(value.integer));
  } else if (value.type == "i64") {
    put(value.integer);
  } else if (value.type == "u8") {
    put(static_cast<std::uint8_t>(value.integer));
  } else if (value.type == "f32") {
    put(static_cast<float>(value.real));
  } else if (value.type == "f64") {
    put(value.real);
  } else {
    return Diagnostic{.message = "no argument type is called " + value.type};
  }
  return bits;
}

}  // namespace

struct GpuEntry::State {
  struct Argument {
    std::size_t tensor = 0;
    bool is_tensor = false;
    std::uint64_t bits = 0;
  };
  struct BoundLaunch {
    runtime::Function function;
    runtime::Geometry geometry;
    std::vector<Argument> arguments;
  };
  std::shared_ptr<runtime::Context> context;
  std::vector<std::shared_ptr<runtime::Module>> modules;
  std::vector<BoundLaunch> launches;
  std::vector<runtime::Buffer> buffers;  // one per tensor
  std::vector<bool> is_input;
};

GpuEntry::GpuEntry(std::unique_ptr<State> state) : state_(std::move(state)) {}
GpuEntry::~GpuEntry() = default;

const std::string& GpuEntry::device() const {
  return state_->context->device_name();
}

Result<std::unique_ptr<GpuEntry>> GpuEntry::load(const std::string& driver, int ordinal,
                                                 const std::vector<Image>& images) {
  auto state = std::make_unique<State>();
  auto opened = runtime::Driver::open(driver);
  if (!opened) return opened.error();
  auto context = runtime::Context::create(*opened, ordinal);
  if (!context) return context.error();
  state->context = *context;
  // From here on the driver reads what somebody else wrote, and a virtual one executes it in this process. Not before:
  // a real driver may start a helper program when it is initialised.
  forbid_touching_others();
  forbid_reading_my_memory();
  for (const Image& image : images) {
    std::ifstream file(image.path, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (sha256_hex(std::as_bytes(std::span(bytes))) != image.hash)
      return Diagnostic{.message = image.path + " is not what was built", .fix = "run the gate again"};
    bytes.push_back('\0');  // PTX is text, and drivers read it up to its end
    auto module = runtime::Module::load(state->context, std::as_bytes(std::span(bytes)));
    if (!module) return Diagnostic{.message = image.path + ": " + module.error().message, .fix = module.error().fix};
    state->modules.push_back(*module);
  }
  return std::unique_ptr<GpuEntry>(new GpuEntry(std::move(state)));
}

Result<Done> GpuEntry::bind(const std::vector<Launch>& launches, std::vector<bool> is_input,
                            const cudadent_call& shape) {
  State& state = *state_;
  state.launches.clear();
  state.buffers.clear();
  state.is_input = std::move(is_input);
  for (std::int32_t i = 0; i < shape.tensor_count; ++i) {
    auto buffer = runtime::Buffer::create(state.context, extent_bytes(shape.tensors[i]));
    if (!buffer) return buffer.error();
    state.buffers.push_back(std::move(*buffer));
  }
  for (const Launch& launch : launches) {
    if (launch.image >= state.modules.size()) return Diagnostic{.message = "a launch of an image that is not loaded"};
    auto function = state.modules[launch.image]->function(launch.kernel);
    if (!function) return function.error();
    State::BoundLaunch made{.function = *function, .geometry = {}, .arguments = {}};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      made.geometry.grid[axis] = static_cast<unsigned>(launch.grid[axis]);
      made.geometry.block[axis] = static_cast<unsigned>(launch.block[axis]);
    }
    made.geometry.dynamic_shared_bytes = static_cast<unsigned>(launch.shared_bytes);
    for (const LaunchValue& value : launch.args) {
      if (value.tensor) {
        made.arguments.push_back({.tensor = *value.tensor, .is_tensor = true});
        continue;
      }
      auto bits = scalar_bits(value);
      if (!bits) return bits.error();
      made.arguments.push_back({.bits = *bits});
    }
    // A virtual driver looks at it with every launch, a real one does not know it.
    if (launch.instruction_budget != 0) setenv("VGPU_BUDGET", std::to_string(launch.instruction_budget).c_str(), 1);
    state.launches.push_back(std::move(made));
  }
  return Done{};
}

Result<Done> GpuEntry::run(const cudadent_call& call) {
  State& state = *state_;
  const auto bytes_of = [&](std::size_t i) {
    return std::span(static_cast<std::byte*>(call.tensors[i].data),
                     call.tensors[i].data ? state.buffers[i].bytes() : 0);
  };
  for (std::size_t i = 0; i < state.buffers.size(); ++i) {
    if (auto written = state.buffers[i].write(bytes_of(i)); !written) return written.error();
  }
  for (State::BoundLaunch& launch : state.launches) {
    const auto& grid = launch.geometry.grid;
    if (std::find(grid.begin(), grid.end(), 0U) != grid.end()) continue;  // nothing to compute
    std::vector<std::uint64_t> values;
    for (const State::Argument& argument : launch.arguments)
      values.push_back(argument.is_tensor ? state.buffers.at(argument.tensor).address() : argument.bits);
    std::vector<void*> pointers;
    pointers.reserve(values.size());
    for (std::uint64_t& value : values) pointers.push_back(&value);
    if (auto launched = launch.function.launch(launch.geometry, pointers); !launched)
      return Diagnostic{.message = launch.function.name() + ": " + launched.error().message};
  }
  if (auto ended = state.context->synchronize(); !ended) return ended.error();
  for (std::size_t i = 0; i < state.buffers.size(); ++i) {
    // Inputs come back too: a kernel that wrote to one is found out by the caller's comparison, which needs a copy of
    // its own because the caller's memory is read-only.
    if (call.tensors[i].data == nullptr) continue;
    std::vector<std::byte> back(state.buffers[i].bytes());
    if (auto read = state.buffers[i].read(back); !read) return read.error();
    const auto mine = bytes_of(i);
    if (std::equal(back.begin(), back.end(), mine.begin())) continue;
    if (state.is_input[i])
      return Diagnostic{
          .message = fmt::format("the kernel wrote to input '{}': inputs are read-only", call.tensors[i].name),
          .fix = "copy what must change into a buffer of the kernel's own"};
    std::memcpy(mine.data(), back.data(), back.size());
  }
  return Done{};
}

}  // namespace flashmoe::workflow
