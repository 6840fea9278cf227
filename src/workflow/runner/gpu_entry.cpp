#include "workflow/runner/gpu_entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <string>

#include "runtime/kernel_facts.hpp"
#include "runtime/range_profiler.hpp"
#include "runtime/timing.hpp"
#include "support/clock.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
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
struct Scalar {
  std::uint64_t bits = 0;
  std::size_t bytes = 0;
};

Result<Scalar> scalar_of(const LaunchValue& value) {
  Scalar made;
  const auto put = [&](auto number) {
    std::memcpy(&made.bits, &number, sizeof number);
    made.bytes = sizeof number;
  };
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
  return made;
}

Result<std::size_t> bytes_of(const LaunchValue& value) {
  if (value.tensor) return sizeof(runtime::cuda::DeviceAddress);
  auto scalar = scalar_of(value);
  if (!scalar) return scalar.error();
  return scalar->bytes;
}

// A driver reads what the kernel takes, whatever it is given.
Result<Done> check_arguments(const Launch& launch, const runtime::Function& function) {
  const auto takes = function.parameters();
  if (!takes) return Done{};
  std::string sizes;
  for (const std::size_t bytes : *takes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", bytes);
  const std::string fix = fmt::format("list in args what {} takes, in its order: {} bytes (a tensor is 8)",
                                      launch.kernel, sizes.empty() ? "0" : sizes);
  if (takes->size() != launch.args.size()) {
    return Diagnostic{.message = fmt::format("{} takes {} arguments, and the project gives it {}", launch.kernel,
                                             takes->size(), launch.args.size()),
                      .fix = fix};
  }
  for (std::size_t i = 0; i < takes->size(); ++i) {
    const auto bytes = bytes_of(launch.args[i]);
    if (!bytes) return bytes.error();
    if (*bytes == (*takes)[i]) continue;
    const std::string given = launch.args[i].tensor ? "a tensor" : "of type " + launch.args[i].type;
    return Diagnostic{.message = fmt::format("argument {} of {} has {} bytes, and the project gives it one that is {}",
                                             i + 1, launch.kernel, (*takes)[i], given),
                      .fix = fix};
  }
  return Done{};
}

// Reads words so that they lie in L2. What it read decides nothing, but no compiler can know.
constexpr const char* touch_ptx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry touch(.param .u64 words, .param .u64 count, .param .u64 sink) {
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [words];
  ld.param.u64 %d2, [count];
  ld.param.u64 %d3, [sink];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  cvt.u64.u32 %d4, %r1;
  mov.u32 %r3, %nctaid.x;
  mul.lo.u32 %r2, %r2, %r3;
  cvt.u64.u32 %d5, %r2;
  mov.u32 %r4, 0;
step:
  setp.ge.u64 %p1, %d4, %d2;
  @%p1 bra done;
  shl.b64 %d6, %d4, 2;
  add.u64 %d6, %d1, %d6;
  ld.global.cg.u32 %r5, [%d6];
  xor.b32 %r4, %r4, %r5;
  add.u64 %d4, %d4, %d5;
  bra step;
done:
  setp.eq.u64 %p2, %d3, 0;
  @%p2 bra out;
  cvta.to.global.u64 %d7, %d3;
  st.global.u32 [%d7], %r4;
out:
  ret;
}
)";

// Overwriting so much leaves nothing of before in L2, and keeps the card busy while the host queues what is timed.
constexpr std::size_t flush_factor = 2;
constexpr std::size_t least_flush_bytes = std::size_t{8} << 20;
constexpr std::size_t most_cold_calls = 32;

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
  using Buffers = std::vector<runtime::Buffer>;  // one per tensor

  std::shared_ptr<runtime::Context> context;
  std::vector<std::shared_ptr<runtime::Module>> modules;
  std::vector<BoundLaunch> launches;
  std::vector<std::size_t> bytes;  // of each tensor
  std::vector<Buffers> sets;       // of calls; the first serves all that are not timed
  std::vector<bool> is_input;
  std::int64_t l2_bytes = 0;
  // For timing, made when it is first asked for.
  struct Clock {
    runtime::Stream stream;
    std::vector<runtime::Event> events;
    runtime::Buffer flush;
    std::shared_ptr<runtime::Module> module;
    runtime::Function touch;
  };
  std::optional<Clock> clock;

  Result<Done> make_sets(std::size_t count);
  Result<Clock*> clock_with(std::size_t events);
  Result<Done> upload(const cudadent_call& call, Buffers& to) const;
  Result<Done> enqueue(const Buffers& buffers, runtime::cuda::StreamHandle stream) const;
  Result<Done> download(const cudadent_call& call, const Buffers& from) const;
  Result<Done> flush_l2(const Clock& by, unsigned value) const;
  Result<Done> touch_inputs(const Clock& by, std::size_t count) const;
  Result<double> time_kernels(Clock& by, std::size_t count) const;
  Result<double> time_cold(Clock& by, std::size_t count) const;
  Result<double> time_calls(Clock& by, std::size_t count) const;
};

GpuEntry::GpuEntry(std::unique_ptr<State> state) : state_(std::move(state)) {}
GpuEntry::~GpuEntry() = default;

const std::string& GpuEntry::device() const {
  return state_->context->device_name();
}

std::int64_t GpuEntry::l2_bytes() const {
  return state_->l2_bytes;
}

Result<std::unique_ptr<GpuEntry>> GpuEntry::load(const std::string& driver, int ordinal,
                                                 const std::vector<Image>& images) {
  auto state = std::make_unique<State>();
  auto opened = runtime::Driver::open(driver);
  if (!opened) return opened.error();
  auto context = runtime::Context::create(*opened, ordinal);
  if (!context) return context.error();
  state->context = *context;
  if (const auto bytes = (*context)->attribute(runtime::cuda::DeviceAttribute::l2_bytes)) state->l2_bytes = *bytes;
  // From here on the driver reads what somebody else wrote, and a virtual one executes it in this process. Not before:
  // a real driver may start a helper program when it is initialised.
  forbid_touching_others();
  forbid_reading_my_memory();
  for (const Image& image : images) {
    std::string bytes = whole_file(image.path).value_or("");
    if (sha256_hex(std::as_bytes(std::span(bytes))) != image.hash)
      return Diagnostic{.message = image.path + " is not what was built", .fix = "run the gate again"};
    bytes.push_back('\0');  // PTX is text, and drivers read it up to its end
    auto module = runtime::Module::load(state->context, std::as_bytes(std::span(bytes)));
    if (!module) return Diagnostic{.message = image.path + ": " + module.error().message, .fix = module.error().fix};
    state->modules.push_back(*module);
  }
  return std::unique_ptr<GpuEntry>(new GpuEntry(std::move(state)));
}

Result<Done> GpuEntry::bind(const std::vector<Launch>& launches, std::vector<bool> is_input, const cudadent_call& shape,
                            std::size_t behind) {
  State& state = *state_;
  state.launches.clear();
  state.sets.clear();
  state.bytes.clear();
  state.is_input = std::move(is_input);
  for (std::int32_t i = 0; i < shape.tensor_count; ++i) {
    const bool is_fenced = !state.is_input[static_cast<std::size_t>(i)] && shape.tensors[i].data != nullptr;
    state.bytes.push_back(extent_bytes(shape.tensors[i]) + (is_fenced ? behind : 0));
  }
  if (auto made = state.make_sets(1); !made) return made;
  for (const Launch& launch : launches) {
    if (launch.image >= state.modules.size()) return Diagnostic{.message = "a launch of an image that is not loaded"};
    auto function = state.modules[launch.image]->function(launch.kernel);
    if (!function) return function.error();
    if (auto fitting = check_arguments(launch, *function); !fitting) return fitting;
    // Before anything is captured: what a launch asks for is settled here.
    if (auto allowed = function->allow_dynamic_shared(static_cast<unsigned>(launch.shared_bytes)); !allowed)
      return allowed;
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
      auto scalar = scalar_of(value);
      if (!scalar) return scalar.error();
      made.arguments.push_back({.bits = scalar->bits});
    }
    // A virtual driver looks at it with every launch, a real one does not know it.
    if (launch.instruction_budget != 0) setenv("VGPU_BUDGET", std::to_string(launch.instruction_budget).c_str(), 1);
    state.launches.push_back(std::move(made));
  }
  return Done{};
}

Result<Done> GpuEntry::State::make_sets(std::size_t count) {
  while (sets.size() < count) {
    Buffers made;
    for (const std::size_t size : bytes) {
      auto buffer = runtime::Buffer::create(context, size);
      if (!buffer) return buffer.error();
      made.push_back(std::move(*buffer));
    }
    sets.push_back(std::move(made));
  }
  return Done{};
}

Result<Done> GpuEntry::State::upload(const cudadent_call& call, Buffers& to) const {
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (call.tensors[i].data == nullptr) continue;
    if (auto written = to[i].write({static_cast<const std::byte*>(call.tensors[i].data), to[i].bytes()}); !written)
      return written;
  }
  return Done{};
}

Result<Done> GpuEntry::State::enqueue(const Buffers& buffers, runtime::cuda::StreamHandle stream) const {
  for (const BoundLaunch& launch : launches) {
    const auto& grid = launch.geometry.grid;
    if (std::find(grid.begin(), grid.end(), 0U) != grid.end()) continue;  // nothing to compute
    std::vector<std::uint64_t> values;
    for (const Argument& argument : launch.arguments)
      values.push_back(argument.is_tensor ? buffers.at(argument.tensor).address() : argument.bits);
    std::vector<void*> pointers;
    pointers.reserve(values.size());
    for (std::uint64_t& value : values) pointers.push_back(&value);
    if (auto launched = launch.function.launch(launch.geometry, pointers, stream); !launched)
      return Diagnostic{.message = launch.function.name() + ": " + launched.error().message};
  }
  return Done{};
}

Result<Done> GpuEntry::State::download(const cudadent_call& call, const Buffers& from) const {
  for (std::size_t i = 0; i < from.size(); ++i) {
    // Inputs come back too: a kernel that wrote to one is found out by the caller's comparison, which needs a copy of
    // its own because the caller's memory is read-only.
    if (call.tensors[i].data == nullptr) continue;
    std::vector<std::byte> back(from[i].bytes());
    if (auto read = from[i].read(back); !read) return read.error();
    const std::span mine(static_cast<std::byte*>(call.tensors[i].data), from[i].bytes());
    if (std::equal(back.begin(), back.end(), mine.begin())) continue;
    if (is_input[i])
      return Diagnostic{
          .message = fmt::format("the kernel wrote to input '{}': inputs are read-only", call.tensors[i].name),
          .fix = "copy what must change into a buffer of the kernel's own"};
    std::memcpy(mine.data(), back.data(), back.size());
  }
  return Done{};
}

Result<Done> GpuEntry::run(const cudadent_call& call) {
  State& state = *state_;
  State::Buffers& buffers = state.sets.front();
  if (auto there = state.upload(call, buffers); !there) return there;
  if (auto queued = state.enqueue(buffers, nullptr); !queued) return queued;
  if (auto ended = state.context->synchronize(); !ended) return ended;
  return state.download(call, buffers);
}

// ---- time --------------------------------------------------------------------------------------------------------

Result<GpuEntry::State::Clock*> GpuEntry::State::clock_with(std::size_t events) {
  if (!clock) {
    auto stream = runtime::Stream::create(context);
    if (!stream) return stream.error();
    const std::size_t flush_bytes = std::max(least_flush_bytes, flush_factor * static_cast<std::size_t>(l2_bytes));
    auto flush = runtime::Buffer::create(context, flush_bytes);
    if (!flush) return flush.error();
    auto module = runtime::Module::load(context, std::as_bytes(std::span(touch_ptx, std::strlen(touch_ptx) + 1)));
    if (!module) return module.error();
    auto touch = (*module)->function("touch");
    if (!touch) return touch.error();
    clock.emplace(
        Clock{std::move(*stream), std::vector<runtime::Event>{}, std::move(*flush), *module, std::move(*touch)});
  }
  while (clock->events.size() < events) {
    auto event = runtime::Event::create(context);
    if (!event) return event.error();
    clock->events.push_back(std::move(*event));
  }
  return &*clock;
}

Result<Done> GpuEntry::State::flush_l2(const Clock& by, unsigned value) const {
  const runtime::Context::Current current(*context);
  const runtime::Driver& driver = context->driver();
  return driver.check(
      driver.call().fill_words_async(by.flush.address(), value, by.flush.bytes() / sizeof value, by.stream.handle()),
      "cuMemsetD32Async");
}

Result<Done> GpuEntry::State::touch_inputs(const Clock& by, std::size_t count) const {
  for (std::size_t set = 0; set < count; ++set) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (!is_input[i] || bytes[i] < sizeof(std::uint32_t)) continue;
      std::uint64_t words = sets[set][i].address();
      std::uint64_t number = bytes[i] / sizeof(std::uint32_t);
      std::uint64_t sink = 0;
      void* parameters[] = {&words, &number, &sink};
      const auto ctas = static_cast<unsigned>(std::clamp<std::uint64_t>(number / 1024, 1, 256));
      if (auto launched = by.touch.launch({.grid = {ctas, 1, 1}, .block = {256, 1, 1}}, parameters, by.stream.handle());
          !launched)
        return launched;
    }
  }
  return Done{};
}

Result<double> GpuEntry::State::time_kernels(Clock& by, std::size_t count) const {
  const auto graph = runtime::Graph::capture(by.stream, [&]() -> Result<Done> {
    for (std::size_t set = 0; set < count; ++set) {
      if (auto queued = enqueue(sets[set], by.stream.handle()); !queued) return queued;
    }
    return Done{};
  });
  if (!graph) return graph.error();
  if (auto there = graph->upload(by.stream); !there) return there.error();
  if (auto filled = flush_l2(by, 0); !filled) return filled.error();
  if (auto touched = touch_inputs(by, count); !touched) return touched.error();
  if (auto began = by.events[0].record(by.stream); !began) return began.error();
  if (auto launched = graph->launch(by.stream); !launched) return launched.error();
  if (auto ended = by.events[1].record(by.stream); !ended) return ended.error();
  if (auto done = by.stream.synchronize(); !done) return done.error();
  return runtime::Event::seconds_between(by.events[0], by.events[1]);
}

Result<double> GpuEntry::State::time_cold(Clock& by, std::size_t count) const {
  const std::size_t timed = std::min(count, most_cold_calls);
  for (std::size_t set = 0; set < count; ++set) {
    const bool is_timed = set < timed;
    if (is_timed) {
      if (auto filled = flush_l2(by, static_cast<unsigned>(set)); !filled) return filled.error();
      if (auto began = by.events[2 * set].record(by.stream); !began) return began.error();
    }
    if (auto queued = enqueue(sets[set], by.stream.handle()); !queued) return queued.error();
    if (is_timed) {
      if (auto ended = by.events[2 * set + 1].record(by.stream); !ended) return ended.error();
    }
  }
  if (auto done = by.stream.synchronize(); !done) return done.error();
  double seconds = 0;
  for (std::size_t set = 0; set < timed; ++set) {
    const auto one = runtime::Event::seconds_between(by.events[2 * set], by.events[2 * set + 1]);
    if (!one) return one.error();
    seconds += *one;
  }
  return seconds * static_cast<double>(count) / static_cast<double>(timed);
}

Result<double> GpuEntry::State::time_calls(Clock& by, std::size_t count) const {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t set = 0; set < count; ++set) {
    if (auto queued = enqueue(sets[set], by.stream.handle()); !queued) return queued.error();
  }
  if (auto done = by.stream.synchronize(); !done) return done.error();
  return seconds_since(start);
}

Result<double> GpuEntry::time(std::span<const cudadent_call> calls, Timing timing) {
  State& state = *state_;
  if (calls.empty()) return 0.0;
  if (auto made = state.make_sets(calls.size()); !made) return made.error();
  auto clock = state.clock_with(2 * std::min(calls.size(), most_cold_calls));
  if (!clock) return clock.error();
  for (std::size_t set = 0; set < calls.size(); ++set) {
    if (auto there = state.upload(calls[set], state.sets[set]); !there) return there.error();
  }
  // A copy from memory that is not pinned may return before it has arrived, and our stream waits for no other.
  if (auto arrived = state.context->synchronize(); !arrived) return arrived.error();
  auto seconds = timing == Timing::kernel ? state.time_kernels(**clock, calls.size())
                 : timing == Timing::cold ? state.time_cold(**clock, calls.size())
                                          : state.time_calls(**clock, calls.size());
  if (!seconds) return seconds;
  for (std::size_t set = 0; set < calls.size(); ++set) {
    if (auto back = state.download(calls[set], state.sets[set]); !back) return back.error();
  }
  return seconds;
}

Result<CallCount> GpuEntry::count(const cudadent_call& call, const std::vector<std::string>& metrics,
                                  const std::string& cupti) {
  State& state = *state_;
  const auto card = runtime::device_facts(*state.context);
  if (!card) return card.error();
  CallCount count{.card = *card};
  for (const State::BoundLaunch& launch : state.launches) {
    const auto facts = runtime::kernel_facts(launch.function, launch.geometry);
    if (!facts) return facts.error();
    count.launches.push_back({.kernel = launch.function.name(), .facts = *facts});
  }
  if (metrics.empty()) return count;
  // What fails from here on is a reason, and no failure: the call itself ran before.
  const auto counted = [&]() -> Result<std::vector<std::map<std::string, double>>> {
    const auto library = runtime::Cupti::open(cupti);
    if (!library) return library.error();
    auto profiler = runtime::RangeProfiler::create(*library, state.context, metrics, state.launches.size());
    if (!profiler) return profiler.error();
    if (auto there = state.upload(call, state.sets.front()); !there) return there.error();
    if (auto started = (*profiler)->start(); !started) return started.error();
    if (auto queued = state.enqueue(state.sets.front(), nullptr); !queued) return queued.error();
    if (auto ended = state.context->synchronize(); !ended) return ended.error();
    if (auto stopped = (*profiler)->stop(); !stopped) return stopped.error();
    return (*profiler)->read();
  }();
  if (!counted) {
    count.not_counted = counted.error();
    return count;
  }
  for (std::size_t i = 0; i < counted->size() && i < count.launches.size(); ++i)
    count.launches[i].counted = (*counted)[i];
  return count;
}

}  // namespace flashmoe::workflow
