#include "workflow/runner/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "support/clock.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "workflow/runner/confine_kernel.hpp"
#include "workflow/runner/crash.hpp"
#include "workflow/runner/element.hpp"
#include "workflow/runner/hardening.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/launch_text.hpp"
#include "workflow/runner/leash.hpp"
#include "workflow/runner/python_runner.hpp"
#include "workflow/runner/shared_region.hpp"

namespace flashmoe::workflow {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A Python worker may import torch from a cold disk.
constexpr milliseconds load_limit{120'000};
constexpr milliseconds bind_limit{60'000};
// Threads that wait by spinning calm down in the first of these; who works for the next call does not.
constexpr int unasked_windows = 3;
// A worker gives its processor away by itself when it waits for the next request and when it is stopped.
constexpr long waits_around_a_block = 2;
constexpr std::byte canary{0xC5};

RunError failed(Failure failure, std::string message, std::string fix = {}) {
  return {failure, {.message = std::move(message), .fix = std::move(fix)}};
}

// The last lines of what the process wrote to stderr: the reason is there more often than not.
std::string tail(const std::string& text) {
  constexpr std::size_t most = 600;
  std::string end = text.size() > most ? "..." + text.substr(text.size() - most) : text;
  while (!end.empty() && (end.back() == '\n' || end.back() == ' ')) end.pop_back();
  return end.empty() ? "" : "; it wrote: " + end;
}

}  // namespace

struct Session::State {
  Runnable runnable;
  bool trusted = false;
  bool python = false;
  double call_limit_seconds = 10;
  std::string workload = "(none)";
  std::string version;
  std::int64_t l2_bytes = 0;
  Conversation talk;
  Leash leash;
  SharedRegion inputs;
  SharedRegion outputs;
  std::vector<TensorSpec> specs;
  Layout layout;
  int sets = 0;
  std::vector<std::uint64_t> input_hashes;  // per set
  std::optional<std::uint64_t> kills_before = memory_kills();
  std::uint64_t poison_salt = fresh_seed();

  std::byte* at(int set, std::size_t index) const {
    const TensorLayout& tensor = layout.tensors[index];
    const bool input = tensor.role == TensorRole::input;
    const std::size_t step = input ? layout.input_bytes : layout.output_bytes;
    return (input ? inputs.data() : outputs.data()) + static_cast<std::size_t>(set) * step + tensor.offset;
  }

  std::span<const std::byte> inputs_of(int set) const {
    return {inputs.data() + static_cast<std::size_t>(set) * layout.input_bytes, layout.input_bytes};
  }

  // Which tensor lies at this offset of a region.
  std::string owner(bool input, std::size_t offset) const {
    const std::size_t step = input ? layout.input_bytes : layout.output_bytes;
    const std::size_t in_set = step == 0 ? 0 : offset % step;
    std::string name = "?";
    for (const TensorLayout& tensor : layout.tensors) {
      if ((tensor.role == TensorRole::input) == input && tensor.offset <= in_set) name = tensor.name;
    }
    return name;
  }

  RunError ended(const Json& fault) {
    const Finished& how = talk.finished();
    if (how.interrupted) return failed(Failure::refused, "interrupted");
    if (how.timed_out) {
      return failed(Failure::hung,
                    fmt::format("{} hung in workload {}: no answer within {:.1f} s; its process group was killed",
                                runnable.label, workload, std::chrono::duration<double>(last_limit).count()),
                    fmt::format("look for a loop or a lock that never ends; a call that needs longer wants a larger "
                                "call_limit_seconds (now {})",
                                call_limit_seconds));
    }
    if (fault.is_object() && fault.value("region", "") == "inputs") {
      return failed(Failure::refused,
                    fmt::format("{} wrote to input '{}' in workload {}: inputs are read-only", runnable.label,
                                owner(true, fault.value("offset", std::size_t{0})), workload),
                    "copy what must change into a buffer of the kernel's own");
    }
    if (ran_out_of_memory(how, kills_before, memory_kills())) {
      return failed(Failure::out_of_memory,
                    fmt::format("{} ran out of memory in workload {}: {}{}", runnable.label, workload, how.describe(),
                                tail(how.err)),
                    "free memory, use less of it, or make the workload smaller");
    }
    if (how.signal != 0) {
      std::string where = place_of(one_line(fault), runnable.library);
      if (fault.is_object() && fault.value("region", "") == "outputs") {
        where += fmt::format(", near tensor '{}'", owner(false, fault.value("offset", std::size_t{0})));
      }
      return failed(Failure::crashed,
                    fmt::format("{} crashed in workload {}: {}{}{}", runnable.label, workload, how.describe(), where,
                                tail(how.err)),
                    "run it under a debugger or build it with -fsanitize=address in [cpu] flags; an index beyond the "
                    "shape is the usual cause");
    }
    return failed(Failure::refused,
                  fmt::format("{} ended its process in workload {} in the middle of a call: {}{}", runnable.label,
                              workload, how.describe(), tail(how.err)),
                  "return from the entry; exit() and _exit() are not an answer");
  }

  // A block of calls, with what a trusted Python callable does around it.
  Block block(const Json& range, milliseconds limit);

  milliseconds last_limit{0};

  Finished end_talk() {
    leash.go_on();  // a stopped process does not see that it is to end
    return talk.stop();
  }

  struct Exchange {  // NOLINT(bugprone-exception-escape): to make a null value throws nothing
    Json reply;
    double seconds = 0;
    double cpu_seconds = -1;
    bool by_one_thread = false;
  };

  // One request and its answer. Every line that is not that answer is somebody else's, and a reason to stop. The
  // request lies in the pipe before the worker goes on; one that asks for no computing may be longer than a pipe holds.
  RunError ask(Json request, milliseconds limit, Exchange& exchange) {
    last_limit = limit;
    const std::uint64_t n = fresh_seed();
    request["n"] = n;
    const bool is_block = request["cmd"] == "run";
    if (RunError error = leash.check_it_stood_still(); error.failure != Failure::none) {
      end_talk();
      return error;
    }
    if (!is_block) leash.go_on();
    if (!talk.send(one_line(request))) {
      leash.go_on();
      static_cast<void>(talk.receive(milliseconds(2000)));
      return ended(Json());
    }
    const Work before = leash.work();
    const auto start = Clock::now();
    if (is_block) leash.go_on();
    const auto line = talk.receive(limit);
    // The clock stops after the worker was told to: what its threads do behind the answer is timed, too.
    if (line) leash.tell_to_stop();
    exchange.seconds = seconds_since(start);
    if (!line) return ended(Json());
    if (is_block) leash.add_asked_seconds(exchange.seconds);
    const Json& reply = exchange.reply = parse_json(*line);
    if (reply.is_object() && reply.contains("fault")) {
      leash.go_on();
      static_cast<void>(talk.receive(milliseconds(2000)));
      return ended(reply);
    }
    if (!reply.is_object() || reply.value("n", std::uint64_t{0}) != n) {
      end_talk();
      return failed(
          Failure::refused,
          fmt::format("{} wrote to the channel between worker and controller in workload {}", runnable.label, workload),
          "a kernel computes its outputs and leaves the worker's file descriptors alone");
    }
    if (RunError error = leash.await_stop(); error.failure != Failure::none) return error;
    const Work after = leash.work();
    if (before.cpu_seconds >= 0 && after.cpu_seconds >= 0) {
      exchange.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
      exchange.by_one_thread = one_thread_ran(before, after) && before.waits >= 0 && after.waits >= 0 &&
                               after.waits - before.waits <= waits_around_a_block;
    }
    if (!reply.value("ok", false)) {
      return failed(reply.value("out_of_memory", false) ? Failure::out_of_memory : Failure::refused,
                    fmt::format("{} in workload {}: {}", runnable.label, workload, reply.value("error", "no reason")),
                    reply.value("fix", ""));
    }
    return {};
  }
};

Session::Session() = default;
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

int Session::sets() const {
  return state_->sets;
}
const Layout& Session::layout() const {
  return state_->layout;
}
const std::string& Session::label() const {
  return state_->runnable.label;
}
const std::string& Session::version() const {
  return state_->version;
}
std::int64_t Session::l2_bytes() const {
  return state_->l2_bytes;
}

RunError Session::start(const Project& project, const Runnable& runnable, bool trusted) {
  // The expected values will live in this process.
  forbid_reading_my_memory();
  state_ = std::make_unique<State>();
  State& state = *state_;
  state.runnable = runnable;
  state.trusted = trusted;
  state.python = runnable.kind == CallableKind::python;
  state.call_limit_seconds = project.call_limit_seconds;
  state.specs = project.tensors;
  auto inputs = SharedRegion::make("cudadent-inputs", !state.python);
  if (!inputs) return {Failure::could_not_start, inputs.error()};
  auto outputs = SharedRegion::make("cudadent-outputs", false);
  if (!outputs) return {Failure::could_not_start, outputs.error()};
  state.inputs = std::move(*inputs);
  state.outputs = std::move(*outputs);

  const std::string threads = std::to_string(std::max(1, runnable.threads));
  Command command{.argv = worker_command(), .directory = project.directory};
  command.argv.insert(command.argv.begin(), runnable.under.begin(), runnable.under.end());
  // Isolated: neither the working directory nor the environment says what is imported.
  if (state.python) command.argv = {python_program(), "-I", "-B", "-c", python_runner_script};
  command.short_environment = true;
  // A CUDA kernel runs on its device. References and baselines too: what was planted for them reaches no further.
  if (runnable.kind != CallableKind::cuda) command.confinement = confinement_of(project, runnable);
  // Threads that spin after their work would look like work left running.
  command.environment = {"OMP_NUM_THREADS=" + threads, "OMP_WAIT_POLICY=passive", "MKL_NUM_THREADS=" + threads,
                         "OPENBLAS_NUM_THREADS=" + threads, "LD_PRELOAD"};
  command.environment.insert(command.environment.end(), runnable.environment.begin(), runnable.environment.end());
  auto talk = Conversation::start(command, {state.inputs.fd(), state.outputs.fd()});
  if (!talk) {
    Diagnostic problem = talk.error();
    if (state.python) problem.fix = "install python3 with numpy, or set CUDADENT_PYTHON to one that has it";
    return {Failure::could_not_start, problem};
  }
  state.talk = std::move(*talk);
  // On a card the process has no code of the kernel's, and a driver has threads of its own.
  state.leash = Leash(state.talk.supervisor(), runnable.label, trusted || runnable.by_events);
  State::Exchange loaded;
  Json load{{"cmd", "load"},
            {"library", runnable.library},
            {"entry", runnable.entry},
            {"hash", runnable.content_hash},
            {"trusted", trusted}};
  if (runnable.kind == CallableKind::cuda) {
    Json images = Json::array();
    for (const Image& image : runnable.images) images.push_back({{"path", image.path}, {"hash", image.hash}});
    load = {{"cmd", "load_gpu"}, {"driver", runnable.driver}, {"ordinal", runnable.ordinal}, {"images", images}};
  }
  if (state.python) {
    load["torch"] = runnable.torch_tensors;
    load["card"] = runnable.card;
    const ForeignFilters filters = filters_for(state.talk.pid());
    load["seccomp"] = filters.system_call;
    load["touching_others"] = filters.touching_others;
    load["processes"] = filters.processes;
  }
  RunError error = state.ask(load, load_limit, loaded);
  if (error.failure == Failure::none && !trusted && !runnable.by_events && state.leash.processes() > 1) {
    error = failed(
        Failure::refused,
        fmt::format("{} left {} processes running when it was loaded", runnable.label, state.leash.processes() - 1),
        "compute in the entry, in threads; a kernel has no processes of its own");
  }
  if (error.failure == Failure::refused) error.failure = Failure::could_not_start;
  if (error.failure == Failure::none) {
    state.version = loaded.reply.value("version", "");
    state.l2_bytes = loaded.reply.value("l2_bytes", std::int64_t{0});
  }
  return error;
}

RunError Session::bind(const Project& project, const Values& values, const std::string& workload, int sets,
                       bool with_stages) {
  State& state = *state_;
  state.workload = workload;
  auto layout = layout_of(project, values, with_stages);
  if (!layout) return {Failure::could_not_start, layout.error()};
  state.layout = std::move(*layout);
  state.sets = sets;
  const auto count = static_cast<std::size_t>(sets);
  for (auto [region, bytes] : {std::pair{&state.inputs, state.layout.input_bytes * count},
                               std::pair{&state.outputs, state.layout.output_bytes * count}}) {
    if (const auto grown = region->grow(bytes); !grown) return {Failure::could_not_start, grown.error()};
  }
  Json tensors = Json::array();
  for (const TensorLayout& tensor : state.layout.tensors) {
    const char* role = tensor.role == TensorRole::input    ? "input"
                       : tensor.role == TensorRole::output ? "output"
                       : tensor.role == TensorRole::stage  ? "stage"
                                                           : "scratch";
    tensors.push_back({{"name", tensor.name},
                       {"role", role},
                       {"dtype", static_cast<int>(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"stride", tensor.stride},
                       {"offset", tensor.offset},
                       {"absent", tensor.absent}});
  }
  Json params = Json::object();
  for (const auto& [name, value] : values) params[name] = value;
  for (const auto& [name, value] : state.runnable.point) params[name] = value;
  Json request{{"cmd", "bind"},
               {"inputs_fd", state.inputs.fd()},
               {"outputs_fd", state.outputs.fd()},
               {"input_bytes", state.layout.input_bytes},
               {"output_bytes", state.layout.output_bytes},
               {"sets", sets},
               {"threads", state.runnable.threads},
               {"params", params},
               {"tensors", tensors}};
  if (state.runnable.kind == CallableKind::cuda) {
    auto launches = state.runnable.launches(values);
    if (!launches) return {Failure::could_not_start, launches.error()};
    request["launches"] = parse_json(launches_text(*launches));
    request["fenced"] = state.runnable.by_events;
  }
  State::Exchange bound;
  RunError error = state.ask(request, bind_limit, bound);
  // What a kernel in Python prepares it prepares before there are inputs, or it could compute there.
  if (state.python && !state.trusted && error.failure == Failure::none) {
    error = state.ask({{"cmd", "prepare"}, {"first", 0}, {"count", sets}}, bind_limit, bound);
  }
  state.leash.set_workload(workload);
  return error;
}

void Session::fill(int set, std::uint64_t seed, const std::string& hard) {
  for (std::size_t i = 0; i < state_->layout.tensors.size(); ++i) {
    if (state_->layout.tensors[i].role != TensorRole::input) continue;
    fill_input(tensor(set, i), state_->specs[i], mix_seed(seed, i), hard);
  }
}

void Session::copy_inputs(int set, const Session& from, int from_set) {
  const auto source = from.state_->inputs_of(from_set);
  std::memcpy(state_->inputs.data() + static_cast<std::size_t>(set) * state_->layout.input_bytes, source.data(),
              source.size());
}

void Session::seal_inputs_and_poison() {
  State& state = *state_;
  state.poison_salt = mix_seed(state.poison_salt, 1);
  state.input_hashes.assign(static_cast<std::size_t>(state.sets), 0);
  for (int set = 0; set < state.sets; ++set) {
    state.input_hashes[static_cast<std::size_t>(set)] = quick_hash(state.inputs_of(set));
    for (std::size_t i = 0; i < state.layout.tensors.size(); ++i) {
      const TensorLayout& tensor_layout = state.layout.tensors[i];
      if (tensor_layout.role == TensorRole::input || tensor_layout.absent) continue;
      if (state.specs[i].zeroed) {
        std::memset(state.at(set, i), 0, tensor_layout.bytes);
      } else {
        poison(tensor(set, i), tensor_layout.dtype, state.poison_salt);
      }
      std::memset(state.at(set, i) + tensor_layout.bytes, static_cast<int>(canary), canary_bytes);
    }
  }
}

Block Session::run(int first, int count, milliseconds limit, const std::string& variant) {
  return state_->block({{"cmd", "run"}, {"first", first}, {"count", count}, {"variant", variant}}, limit);
}

Block Session::time(int count, Timing timing, milliseconds limit) {
  Block block = state_->block({{"cmd", "run"}, {"first", 0}, {"count", count}, {"timing", name_of(timing)}}, limit);
  // It cannot have been faster than it was awaited; slower it may be said to have been by nobody who wants to win.
  if (block.ok() && block.card_seconds && !(*block.card_seconds > 0 && *block.card_seconds <= block.seconds))
    block.error = failed(Failure::refused,
                         fmt::format("{} says {:.6g} s by the card's clock for a block that took {:.6g} s", label(),
                                     *block.card_seconds, block.seconds),
                         "events of this driver cannot be used; say so with `cudadent doctor --json`");
  return block;
}

Block Session::State::block(const Json& range, milliseconds limit) {
  State& state = *this;
  Block block;
  block.calls = range.at("count");
  State::Exchange exchange;
  const auto ask_too = [&](const char* command) {
    Json request = range;
    request["cmd"] = command;
    block.error = state.ask(request, bind_limit, exchange);
    return block.ok();
  };
  if (state.python && state.trusted && !ask_too("prepare")) return block;
  block.error = state.ask(range, limit, exchange);
  block.seconds = exchange.seconds;
  block.cpu_seconds = exchange.cpu_seconds;
  if (!block.ok()) return block;
  block.worker_seconds = exchange.reply.value("seconds", 0.0);
  if (exchange.reply.contains("card_seconds")) block.card_seconds = exchange.reply.at("card_seconds").get<double>();
  // Which of the few waits were its own the worker says; a lie would hide one of them.
  block.by_one_thread =
      exchange.by_one_thread && state.runnable.kind != CallableKind::cuda && exchange.reply.value("waits", 1L) == 0;
  if (state.python && state.trusted) ask_too("publish");
  return block;
}

Result<CallCount> Session::count(const std::vector<std::string>& metrics, const std::string& cupti,
                                 milliseconds limit) {
  State::Exchange exchange;
  if (RunError error = state_->ask({{"cmd", "count"}, {"metrics", metrics}, {"cupti", cupti}}, limit, exchange);
      error.failure != Failure::none)
    return error.diagnostic;
  return count_from(exchange.reply.value("count", ""));
}

RunError Session::audit() const {
  const State& state = *state_;
  for (int set = 0; set < state.sets; ++set) {
    if (quick_hash(state.inputs_of(set)) != state.input_hashes[static_cast<std::size_t>(set)]) {
      return failed(Failure::refused,
                    fmt::format("{} changed its inputs in workload {} (buffer set {})", state.runnable.label,
                                state.workload, set),
                    "copy what must change into a buffer of the kernel's own");
    }
    for (std::size_t i = 0; i < state.layout.tensors.size(); ++i) {
      const TensorLayout& tensor_layout = state.layout.tensors[i];
      if (tensor_layout.role == TensorRole::input || tensor_layout.absent) continue;
      const std::byte* behind = state.at(set, i) + tensor_layout.bytes;
      if (!std::all_of(behind, behind + canary_bytes, [](std::byte b) { return b == canary; })) {
        return failed(Failure::refused,
                      fmt::format("{} wrote behind the end of '{}' ({} bytes) in workload {}", state.runnable.label,
                                  tensor_layout.name, tensor_layout.bytes, state.workload),
                      "bound the last tile by the shape");
      }
    }
  }
  return {};
}

RunError Session::audit_unasked(milliseconds watch) {
  State& state = *state_;
  if (RunError error = state.leash.check_it_stood_still(); error.failure != Failure::none) return error;
  const auto hash = [&] {
    return quick_hash({state.outputs.data(), state.layout.output_bytes * static_cast<std::size_t>(state.sets)});
  };
  const std::uint64_t before = hash();
  double worked = 0;
  for (int window = 0; window < unasked_windows; ++window) {
    if (RunError error = state.leash.run_unasked(watch, worked); error.failure != Failure::none) return error;
    if (hash() != before) {
      return failed(Failure::refused,
                    fmt::format("outputs of {} changed after it had returned in workload {}", state.runnable.label,
                                state.workload),
                    "finish all work before the entry returns: join or wait for the threads it starts");
    }
    if (worked <= allowed_unasked_seconds) return {};
  }
  return failed(
      Failure::refused,
      fmt::format("{} computes while it is not called in workload {}: {:.1f} ms of processor time in {:.1f} ms",
                  state.runnable.label, state.workload, worked * 1e3,
                  std::chrono::duration<double, std::milli>(watch).count()),
      "compute in the call, all of it and nothing else: no thread that works on, ahead or for nothing");
}

std::span<std::byte> Session::tensor(int set, std::size_t index) {
  return {state_->at(set, index), state_->layout.tensors[index].bytes};
}

std::span<const std::byte> Session::tensor(int set, std::size_t index) const {
  return {state_->at(set, index), state_->layout.tensors[index].bytes};
}

double Session::cpu_seconds() const {
  return state_->leash.cpu_seconds();
}

int Session::stop() {
  return state_ ? state_->end_talk().exit_code : 0;
}

std::vector<std::string> worker_command() {
  std::vector<char> path(4096);
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  const std::string self = length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "cudadent";
  return {self, "worker"};
}

std::string python_program() {
  const char* chosen = std::getenv("CUDADENT_PYTHON");
  return chosen && *chosen ? chosen : "python3";
}

}  // namespace flashmoe::workflow
