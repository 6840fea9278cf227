// Runs one peer on one problem on one driver, and judges the result against the fp64 oracle. One line of JSON.
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <iostream>
#include <map>
#include <stdexcept>

#include "cudart_stand_in.hpp"
#include "peer.h"
#include "runtime/device.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::peers {
namespace {

constexpr const char* kUsage =
    "peers_host --plugin PEER.so [--driver LIBCUDA] [--shape BATCH,HEADS_Q,HEADS_KV,LEN_Q,LEN_KV,HEAD_DIM] [--causal]\n"
    "           [--workspace-mb N] [--seed N] [--judge all|none] [--repeat N]\n"
    "--repeat: as many runs more, on the same buffers and with the kernels loaded; their times are repeat_seconds.\n"
    "Without --driver: FLASHMOE_DRIVER, else the virtual GPU of this build tree. Exit code 0: right, 1: wrong, 2: "
    "usage,\n"
    "3: it could not run.\n";

struct Options {
  std::string driver{}, plugin{}, judge = "all";
  testing::Shape shape{1, 8, 8, 256, 256, 64};
  bool causal = false;
  std::size_t workspace_bytes = std::size_t{64} << 20U;
  std::uint64_t seed = 1;
  int repeat = 0;
};

template <class T>
T get(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}

Options parse(int count, char** arguments) {
  Options options;
  std::map<std::string, std::string> values;
  for (int i = 1; i < count; ++i) {
    const std::string flag = arguments[i];
    if (flag == "--causal") {
      options.causal = true;
    } else if (i + 1 < count) {
      values[flag] = arguments[++i];
    } else {
      throw std::invalid_argument(flag);
    }
  }
  for (const auto& [flag, value] : values) {
    if (flag == "--driver") {
      options.driver = value;
    } else if (flag == "--plugin") {
      options.plugin = value;
    } else if (flag == "--judge") {
      if (value != "all" && value != "none") throw std::invalid_argument(value);
      options.judge = value;
    } else if (flag == "--workspace-mb") {
      options.workspace_bytes = std::stoul(value) << 20U;
    } else if (flag == "--repeat") {
      options.repeat = std::stoi(value);
    } else if (flag == "--seed") {
      options.seed = std::stoull(value);
    } else if (flag == "--shape") {
      long b = 0, hq = 0, hk = 0, lq = 0, lk = 0, d = 0;
      if (std::sscanf(value.c_str(), "%ld,%ld,%ld,%ld,%ld,%ld", &b, &hq, &hk, &lq, &lk, &d) != 6)
        throw std::invalid_argument(value);
      options.shape = {b, hq, hk, lq, lk, d};
    } else {
      throw std::invalid_argument(flag);
    }
  }
  if (options.plugin.empty()) throw std::invalid_argument("--plugin is missing");
  return options;
}

// (batch, len, heads, head_dim), dense: the layout that both peers take.
fms_strides token_major(std::int64_t heads, std::int64_t length, std::int64_t head_dim) {
  return {.batch = length * heads * head_dim, .head = head_dim, .seq = heads * head_dim};
}

fms_attention_problem make_problem(const Options& options) {
  const testing::Shape& s = options.shape;
  fms_attention_problem problem = testing::simple_problem(FMS_F16, s);
  problem.features = 0;  // the peers' log-sum-exps have bases and layouts of their own
  problem.q = problem.o = token_major(s.q_heads, s.q_len, s.head_dim);
  problem.k = problem.v = token_major(s.kv_heads, s.kv_len, s.head_dim);
  problem.window_right = options.causal ? 0 : -1;
  return problem;
}

struct Plugin {
  explicit Plugin(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    run = reinterpret_cast<decltype(&peer_run)>(dlsym(library, "peer_run"));
    name = reinterpret_cast<decltype(&peer_name)>(dlsym(library, "peer_name"));
    if (run == nullptr || name == nullptr) throw std::runtime_error(path + " has not the interface of peer.h");
  }
  decltype(&peer_run) run = nullptr;
  decltype(&peer_name) name = nullptr;
};

runtime::Buffer upload(const std::shared_ptr<runtime::Context>& context, const void* from, std::size_t bytes) {
  auto buffer = get(runtime::Buffer::create(context, bytes));
  get(buffer.write({static_cast<const std::byte*>(from), bytes}));
  return buffer;
}

// Of the host, from the first launch to the end of the last kernel; one for each run.
struct Seconds {
  std::vector<double> wall{}, processor{};  // processor: of all threads together
};

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Seconds run(const Options& options, const Plugin& plugin, const std::shared_ptr<runtime::Context>& context,
            testing::AttentionCase& one) {
  const testing::Shape& s = options.shape;
  const auto half_bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; };
  const std::size_t q_bytes = half_bytes(s.batch * s.q_len * s.q_heads * s.head_dim);
  const std::size_t kv_bytes = half_bytes(s.batch * s.kv_len * s.kv_heads * s.head_dim);
  const fms_attention_args args = one.args();
  const auto q = upload(context, args.q, q_bytes), k = upload(context, args.k, kv_bytes),
             v = upload(context, args.v, kv_bytes);
  const auto o = get(runtime::Buffer::create(context, q_bytes));
  const auto lse =
      get(runtime::Buffer::create(context, static_cast<std::size_t>(s.batch * s.q_heads * s.q_len) * sizeof(float)));
  const auto workspace = get(runtime::Buffer::create(context, options.workspace_bytes));
  const auto pointer = [](const runtime::Buffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
  const PeerProblem problem{.batch = static_cast<std::uint32_t>(s.batch),
                            .heads_q = static_cast<std::uint32_t>(s.q_heads),
                            .heads_kv = static_cast<std::uint32_t>(s.kv_heads),
                            .len_q = static_cast<std::uint32_t>(s.q_len),
                            .len_kv = static_cast<std::uint32_t>(s.kv_len),
                            .head_dim = static_cast<std::uint32_t>(s.head_dim),
                            .causal = options.causal ? 1 : 0,
                            .scale = one.problem().softmax_scale,
                            .q = pointer(q),
                            .k = pointer(k),
                            .v = pointer(v),
                            .o = pointer(o),
                            .lse = static_cast<float*>(pointer(lse)),
                            .workspace = options.workspace_bytes == 0 ? nullptr : pointer(workspace),
                            .workspace_bytes = options.workspace_bytes};
  const runtime::Context::Current current(*context);
  Seconds seconds;
  for (int i = 0; i <= options.repeat; ++i) {
    (void)take_launches();  // what is told are those of the last run
    const auto begin = std::chrono::steady_clock::now();
    const double processor_begin = processor_seconds();
    if (const char* complaint = plugin.run(&problem); complaint != nullptr) throw std::runtime_error(complaint);
    if (const std::string failure = first_failure(); !failure.empty()) throw std::runtime_error(failure);
    get(context->synchronize());
    seconds.wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    seconds.processor.push_back(processor_seconds() - processor_begin);
  }
  get(o.read({static_cast<std::byte*>(args.o), q_bytes}));
  return seconds;
}

std::string json_of(const std::vector<Launch>& launches) {
  std::string text;
  for (const Launch& launch : launches)
    text += fmt::format(R"({}{{"kernel":"{}","grid":[{}],"block":[{}],"dynamic_shared_bytes":{}}})",
                        text.empty() ? "" : ",", launch.kernel, fmt::join(launch.grid, ","),
                        fmt::join(launch.block, ","), launch.dynamic_shared_bytes);
  return text;
}

auto later(const std::vector<double>& seconds) {
  return fmt::join(seconds.begin() + 1, seconds.end(), ",");
}

int harness(const Options& options) {
  const std::string library = options.driver.empty() ? get(runtime::virtual_driver_library()) : options.driver;
  auto context = get(runtime::Context::create(get(runtime::Driver::open(library))));
  stand_in_for_cudart(context);
  const Plugin plugin(options.plugin);
  testing::AttentionCase one = testing::normal_case(make_problem(options), options.seed);
  const Seconds seconds = run(options, plugin, context, one);
  const bool judged = options.judge == "all";
  testing::Judgement judgement;
  if (judged) judgement = testing::judge(one, testing::OracleAnswer(one));
  std::cout << fmt::format(
      R"({{"peer":"{}","device":"{}","judged":{},"right":{},"worst_error_over_bound":{:.4f},"seconds":{:.3f},"repeat_seconds":[{:.4f}],"repeat_processor_seconds":[{:.4f}],"launches":[{}]}})"
      "\n",
      plugin.name(), context->device_name(), judged, judged ? (judgement.complaint.empty() ? "true" : "false") : "null",
      judgement.worst_error_over_bound, seconds.wall.front(), later(seconds.wall), later(seconds.processor),
      json_of(take_launches()));
  if (!judgement.complaint.empty()) std::cerr << "peers_host: " << judgement.complaint << "\n";
  stand_in_for_cudart(nullptr);
  return judgement.complaint.empty() ? 0 : 1;
}

}  // namespace
}  // namespace flashmoe::peers

int main(int count, char** arguments) {
  flashmoe::peers::Options options;
  try {
    options = flashmoe::peers::parse(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "peers_host: " << error.what() << "\n" << flashmoe::peers::kUsage;
    return 2;
  }
  try {
    return flashmoe::peers::harness(options);
  } catch (const std::exception& error) {
    std::cerr << "peers_host: " << error.what() << "\n";
    return 3;
  }
}
