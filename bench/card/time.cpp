#include "time.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cuda/gpu_run.hpp"
#include "stopwatch.hpp"
#include "support/number_format.hpp"

namespace flashmoe::card {

using testing::must;

namespace {

constexpr int usual_rounds = 7, most_calls = 200;
constexpr double least_us = 2000;  // of a graph: far above what an event resolves

fms_attention_plan plan_for(const Card& card, const fms_attention_problem& problem, const fms_plan_options& options) {
  fms_attention_plan plan{};
  fms_error error{};
  if (fms_attention_plan_make(card.library(), &problem, &options, &plan, &error) != FMS_OK)
    throw std::runtime_error(testing::to_string(error));
  return plan;
}

std::string explained(const fms_attention_plan& plan) {
  std::string text(fms_plan_explain(&plan, nullptr, 0), '\0');
  fms_plan_explain(&plan, text.data(), text.size() + 1);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// N(0,1): zeros would take less power and so run at a higher clock than anybody's data.
std::vector<std::byte> normal_values(std::size_t elements) {
  testing::Random random(5);
  std::vector<std::byte> bytes(elements * testing::element_bytes(FMS_F16));
  for (std::size_t i = 0; i < elements; ++i)
    testing::store(bytes.data(), FMS_F16, static_cast<int64_t>(i), random.normal());
  return bytes;
}

// A problem in the card's memory, with its plan and workspace.
class Call {
 public:
  Call(const Card& card, const testing::CoreProblem& one)
      : card_(card), plan_(plan_for(card, one.problem, one.options)) {
    const fms_attention_problem& p = one.problem;
    const int64_t rows = (p.features & FMS_PAGED_KV) != 0 ? p.page_count * p.page_size : p.batch * p.kv_len;
    args_.struct_size = sizeof args_;
    args_.q = tensor(p.batch * p.q_heads * p.q_len * p.head_dim);
    args_.k = tensor(rows * p.kv_heads * p.head_dim);
    args_.v = tensor(rows * p.kv_heads * p.value_dim);
    args_.o = tensor(p.batch * p.q_heads * p.q_len * p.value_dim);
    if ((p.features & FMS_PAGED_KV) != 0) {
      args_.kv_lengths = indices(one.indices.kv_lengths);
      args_.block_table = indices(one.indices.block_table);
    }
    args_.flags = plan_.workspace_bytes > 0 ? FMS_WORKSPACE_READY : 0;
    workspace_ = plan_.workspace_bytes == 0 ? nullptr : zeros(plan_.workspace_bytes);
  }

  [[nodiscard]] const fms_attention_plan& plan() const { return plan_; }

  [[nodiscard]] Result<Done> queue(runtime::cuda::StreamHandle stream) const {
    fms_error error{};
    if (fms_attention_run(card_.library(), &plan_, &args_, workspace_, plan_.workspace_bytes, stream, &error) != FMS_OK)
      return Diagnostic{.message = testing::to_string(error)};
    return Done{};
  }

 private:
  // Filled with a block of values again and again.
  void* tensor(int64_t elements) {
    static const std::vector<std::byte> block = normal_values(1 << 18);
    const std::size_t bytes = static_cast<std::size_t>(elements) * testing::element_bytes(FMS_F16);
    const runtime::cuda::DeviceAddress to = add(bytes);
    for (std::size_t at = 0; at < bytes; at += block.size()) {
      const auto code = card_.driver().call().copy_to_device(to + at, block.data(), std::min(block.size(), bytes - at));
      must(card_.driver().check(code, "cuMemcpyHtoD"));
    }
    return reinterpret_cast<void*>(to);
  }
  const int32_t* indices(const std::vector<int32_t>& values) {
    const runtime::cuda::DeviceAddress to = add(values.size() * sizeof(int32_t));
    must(memory_.back().write(std::as_bytes(std::span(values))));
    return reinterpret_cast<const int32_t*>(to);
  }
  void* zeros(std::size_t bytes) {
    const runtime::cuda::DeviceAddress to = add(bytes);
    must(card_.driver().check(card_.driver().call().fill(to, 0, bytes), "cuMemsetD8"));
    return reinterpret_cast<void*>(to);
  }
  runtime::cuda::DeviceAddress add(std::size_t bytes) {
    memory_.push_back(must(runtime::Buffer::create(card_.device(), bytes)));
    return memory_.back().address();
  }

  const Card& card_;
  fms_attention_plan plan_;
  fms_attention_args args_{};
  std::vector<runtime::Buffer> memory_{};
  void* workspace_ = nullptr;
};

// The median, and how far the rounds lie apart.
template <class Measure>
void measure(Line& line, const std::string& clock, int rounds, const Measure& one_round) {
  std::vector<double> microseconds(static_cast<std::size_t>(rounds));
  for (double& round : microseconds) round = one_round();
  std::ranges::sort(microseconds);
  line[clock] = microseconds[microseconds.size() / 2];
  line[clock + "_spread"] = {microseconds.front(), microseconds.back()};
}

void name(const Card& card, const TimedProblem& row, const fms_attention_plan& plan, Line& line) {
  line["problem"] = row.name;
  line["side"] = "flashmoe";
  line["plan"] = explained(plan);
  line["q_tile"] = plan.q_tile;
  line["kv_splits"] = plan.kv_splits;
  line["ctas"] = plan.work_items;
  card.name_kernel(plan, line);
}

Line timed(const Card& card, Stopwatch& watch, const TimedProblem& row, int rounds) {
  const Call call(card, row.problem());
  Line line{{"time", row.name}};
  name(card, row, call.plan(), line);
  const Work work = [&] { return call.queue(watch.stream().handle()); };
  // The first call loads code; the second says how many fill a graph.
  static_cast<void>(watch.between_events(work));
  const double once_us = watch.between_events(work);
  const double fill = std::ceil(least_us / std::max(once_us, 1e-3));
  const int calls = card.is_virtual() ? 1 : static_cast<int>(std::clamp(fill, 1.0, double{most_calls}));
  const runtime::Graph graph = watch.capture(calls, work);
  const Work launch = [&] { return graph.launch(watch.stream()); };
  watch.settle(launch);
  line["calls"] = calls;
  line["rounds"] = rounds;
  measure(line, "kernel_us", rounds, [&] { return watch.between_events(launch) / calls; });
  measure(line, "cold_us", rounds, [&] {
    watch.overwrite_l2();
    return watch.between_events(work);
  });
  measure(line, "whole_us", rounds, [&] { return watch.by_the_host(calls, work) / calls; });
  return line;
}

}  // namespace

bool time_kernels(const Card& card, const TimeOptions& options, Limit limit) {
  const int rounds = options.rounds.value_or(card.is_virtual() ? 1 : usual_rounds);
  Stopwatch watch(card);
  for (const TimedProblem& row : timed_problems()) {
    if ((options.quick && !row.is_quick) || !limit.allows(row.name)) continue;
    try {
      card.say(timed(card, watch, row, rounds));
    } catch (const std::runtime_error& problem) {
      card.say({{"time", row.name}, {"problem", row.name}, {"side", "flashmoe"}, {"not_run", problem.what()}});
    }
  }
  return limit.conclude(card);
}

void tell_plans(const Card& card) {
  for (const TimedProblem& row : timed_problems()) {
    const testing::CoreProblem one = row.problem();
    const fms_attention_plan plan = plan_for(card, one.problem, one.options);
    Line line;
    name(card, row, plan, line);
    card.say(line);
  }
}

void run_once(const Card& card, const std::string& name) {
  const auto rows = timed_problems();
  const auto row = std::ranges::find(rows, name, &TimedProblem::name);
  if (row == rows.end()) throw std::invalid_argument("no problem of the table is called '" + name + "'");
  const testing::CoreProblem all = row->problem();
  const fms_attention_plan plan = plan_for(card, all.problem, all.options);
  testing::CoreProblem one = plan.kv_splits == 0 ? all : row->of_one_head().problem();
  one.options = testing::plan_options(0, plan.kv_splits, plan.q_tile);
  const Call call(card, one);
  if (call.plan().instance != plan.instance) throw std::runtime_error("the plan of all heads cannot be forced on one");
  must(call.queue(nullptr));
  must(card.device()->synchronize());
  Line line{{"once", row->name},
            {"heads", one.problem.batch * one.problem.kv_heads},
            {"of_heads", all.problem.batch * all.problem.kv_heads}};
  card.name_kernel(call.plan(), line);
  card.say(line);
}

}  // namespace flashmoe::card
