// The C ABI over the benchmark's cells, by name, and what a call costs beyond its kernel.
//
//   attention_bench --benchmark_filter='bf16/t1/prefill.*causal'
//   attention_bench --benchmark_format=json
//
// Names are <dtype>/t<threads>/<cell>, the cells as in the Python bench. There is no other library here to compare
// with: for ratios use python -m flashmoe_science.bench, which interleaves both sides.
//
// Call overhead. At (1,1,1,64) the answer is v itself, so nearly all of a run is the way to the kernel and back:
//   call/<dtype>/plan       fms_attention_plan_make alone
//   call/<dtype>/run        fms_attention_run with a ready plan
//   call/<dtype>/plan+run   both, as a caller without a plan cache pays
//   call/<dtype>/overhead   what run costs above its kernel. The kernel cannot be called from outside, so its time is
//                           the slope over heads: (1,H,1,64) on one thread pays the way once and the kernel H times,
//                           kernel = (run(64 heads) - run(1 head)) / 63, overhead = run(1 head) - kernel
#include <benchmark/benchmark.h>
#include <flashmoe/flashmoe.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Cell {
  const char* kind;
  std::int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim;
  bool causal;
};

struct DtypeName {
  fms_dtype dtype;
  const char* name;
  std::size_t bytes;
};

constexpr DtypeName kDtypes[] = {{FMS_F16, "fp16", 2}, {FMS_BF16, "bf16", 2}, {FMS_F32, "fp32", 4}};
constexpr std::int64_t kGqaGroup = 4;

std::vector<Cell> all_cells() {
  constexpr std::int64_t kPrefillShapes[][4] = {// (B, H, S, D)
                                                {1, 1, 32, 64},     {1, 1, 64, 64},  {1, 1, 128, 64}, {1, 1, 256, 64},
                                                {1, 1, 512, 64},    {2, 8, 128, 64}, {4, 8, 512, 64}, {1, 16, 2048, 64},
                                                {1, 32, 1024, 128}, {1, 8, 4096, 64}};
  std::vector<Cell> cells;
  for (const auto& [batch, heads, length, head_dim] : kPrefillShapes) {
    for (const bool gqa : {false, true}) {
      if (gqa && heads < kGqaGroup) continue;
      const std::int64_t kv_heads = gqa ? heads / kGqaGroup : heads;
      for (const bool causal : {false, true}) {
        cells.push_back({"prefill", batch, heads, kv_heads, length, length, head_dim, causal});
      }
    }
  }
  for (const std::int64_t kv_heads : {32, 8}) cells.push_back({"decode", 1, 32, kv_heads, 1, 4096, 128, false});
  return cells;
}

std::string cell_name(const Cell& cell) {
  std::ostringstream name;
  name << cell.kind << ".b" << cell.batch << "h" << cell.q_heads << "s" << cell.q_len;
  if (cell.q_len != cell.kv_len) name << "x" << cell.kv_len;
  name << "d" << cell.head_dim;
  if (cell.causal) name << ".causal";
  if (cell.q_heads != cell.kv_heads) name << ".gqa" << cell.q_heads / cell.kv_heads;
  return name.str();
}

double cell_flops(const Cell& cell) {
  double scores = static_cast<double>(cell.q_len) * static_cast<double>(cell.kv_len);
  if (cell.causal) scores -= static_cast<double>(cell.q_len - 1) * static_cast<double>(cell.q_len) / 2;
  return 4 * scores * static_cast<double>(cell.batch * cell.q_heads * cell.head_dim);
}

struct Free {
  void operator()(void* memory) const { free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory aligned_memory(std::size_t bytes) {
  return Memory(
      aligned_alloc(FMS_WORKSPACE_ALIGNMENT, (bytes / FMS_WORKSPACE_ALIGNMENT + 1) * FMS_WORKSPACE_ALIGNMENT));
}

// Values of about unit size. The rounding by truncation is good enough: speed does not depend on the last bit.
Memory random_tensor(std::int64_t elements, const DtypeName& dtype, std::uint32_t seed) {
  Memory memory = aligned_memory(static_cast<std::size_t>(elements) * dtype.bytes);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.7F, 1.7F);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = uniform(generator);
    switch (dtype.dtype) {
      case FMS_F16:
        static_cast<_Float16*>(memory.get())[i] = static_cast<_Float16>(value);
        break;
      case FMS_BF16: {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        static_cast<std::uint16_t*>(memory.get())[i] = static_cast<std::uint16_t>(bits >> 16);
        break;
      }
      case FMS_F32:
        static_cast<float*>(memory.get())[i] = value;
        break;
    }
  }
  return memory;
}

struct ContextDestroy {
  void operator()(fms_context* context) const { fms_context_destroy(context); }
};

// A cell with its tensors, ready to be planned and run.
class Prepared {
 public:
  Prepared(const Cell& cell, const DtypeName& dtype, int threads) {
    fms_context* context = nullptr;
    if (failed(fms_context_create(nullptr, &context, &error_))) return;
    context_.reset(context);
    fms_attention_problem_init(&problem_, dtype.dtype, cell.batch, cell.q_heads, cell.kv_heads, cell.q_len, cell.kv_len,
                               cell.head_dim);
    if (cell.causal) problem_.window_right = 0;
    options_.struct_size = sizeof options_;
    options_.threads = threads;
    plan_.struct_size = sizeof plan_;
    if (failed(plan())) return;
    const std::int64_t q_elements = cell.batch * cell.q_heads * cell.q_len * cell.head_dim;
    const std::int64_t kv_elements = cell.batch * cell.kv_heads * cell.kv_len * cell.head_dim;
    q_ = random_tensor(q_elements, dtype, 1);
    k_ = random_tensor(kv_elements, dtype, 2);
    v_ = random_tensor(kv_elements, dtype, 3);
    o_ = aligned_memory(static_cast<std::size_t>(q_elements) * dtype.bytes);
    workspace_ = aligned_memory(plan_.workspace_bytes);
    args_.struct_size = sizeof args_;
    args_.q = q_.get();
    args_.k = k_.get();
    args_.v = v_.get();
    args_.o = o_.get();
    failed(run());  // the first run also touches every page
  }

  fms_status plan() { return fms_attention_plan_make(context_.get(), &problem_, &options_, &plan_, &error_); }
  fms_status run() {
    return fms_attention_run(context_.get(), &plan_, &args_, workspace_.get(), plan_.workspace_bytes, nullptr, &error_);
  }

  // Empty when all is well.
  [[nodiscard]] const std::string& problem_text() const { return problem_text_; }

 private:
  bool failed(fms_status status) {
    if (status != FMS_OK) problem_text_ = error_.message;
    return status != FMS_OK;
  }

  fms_error error_{};
  std::string problem_text_;
  std::unique_ptr<fms_context, ContextDestroy> context_;
  fms_attention_problem problem_{};
  fms_plan_options options_{};
  fms_attention_plan plan_{};
  fms_attention_args args_{};
  Memory q_, k_, v_, o_, workspace_;
};

void run_cell(benchmark::State& state, const Cell& cell, const DtypeName& dtype, int threads) {
  Prepared prepared(cell, dtype, threads);
  if (!prepared.problem_text().empty()) {
    state.SkipWithError(prepared.problem_text().c_str());
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(prepared.run());
  state.counters["flop"] =
      benchmark::Counter(cell_flops(cell), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

// ---- call overhead
// ----------------------------------------------------------------------------------------------------

constexpr std::int64_t kManyHeads = 64;
constexpr Cell one_row(std::int64_t heads) {
  return {"call", 1, heads, heads, 1, 1, 64, false};
}

enum class CallPart { kPlan, kRun, kPlanAndRun };

void run_call(benchmark::State& state, const DtypeName& dtype, CallPart part) {
  Prepared prepared(one_row(1), dtype, 1);
  if (!prepared.problem_text().empty()) {
    state.SkipWithError(prepared.problem_text().c_str());
    return;
  }
  for (auto _ : state) {
    if (part != CallPart::kRun) benchmark::DoNotOptimize(prepared.plan());
    if (part != CallPart::kPlan) benchmark::DoNotOptimize(prepared.run());
  }
}

// The best of a few short stretches: whatever else runs on the machine can only add to one.
double seconds_per_run(Prepared& prepared, std::int64_t runs) {
  constexpr int kStretches = 7;
  double best = std::numeric_limits<double>::infinity();
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < runs; ++i) benchmark::DoNotOptimize(prepared.run());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count() / static_cast<double>(runs));
  }
  return best;
}

// Manual time: the ABI's cost above the kernel. Each iteration times one head and many heads next to each other.
void run_call_overhead(benchmark::State& state, const DtypeName& dtype) {
  Prepared one(one_row(1), dtype, 1), many(one_row(kManyHeads), dtype, 1);
  if (!one.problem_text().empty() || !many.problem_text().empty()) {
    state.SkipWithError((one.problem_text() + many.problem_text()).c_str());
    return;
  }
  constexpr std::int64_t kOneHeadRuns = 640;
  double run_seconds = 0, kernel_seconds = 0;
  for (auto _ : state) {
    const double one_seconds = seconds_per_run(one, kOneHeadRuns);
    const double many_seconds = seconds_per_run(many, kOneHeadRuns / 16);  // about as long, so as likely disturbed
    const double kernel = (many_seconds - one_seconds) / static_cast<double>(kManyHeads - 1);
    run_seconds += one_seconds;
    kernel_seconds += kernel;
    state.SetIterationTime(one_seconds - kernel);
  }
  state.counters["run_ns"] = benchmark::Counter(run_seconds * 1e9, benchmark::Counter::kAvgIterations);
  state.counters["kernel_ns"] = benchmark::Counter(kernel_seconds * 1e9, benchmark::Counter::kAvgIterations);
}

void register_all() {
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  for (const DtypeName& dtype : kDtypes) {
    const std::string prefix = std::string("call/") + dtype.name;
    benchmark::RegisterBenchmark((prefix + "/plan").c_str(), run_call, dtype, CallPart::kPlan);
    benchmark::RegisterBenchmark((prefix + "/run").c_str(), run_call, dtype, CallPart::kRun);
    benchmark::RegisterBenchmark((prefix + "/plan+run").c_str(), run_call, dtype, CallPart::kPlanAndRun);
    benchmark::RegisterBenchmark((prefix + "/overhead").c_str(), run_call_overhead, dtype)
        ->UseManualTime()
        ->Iterations(50)
        ->Repetitions(5)
        ->ReportAggregatesOnly();
    for (const int threads : {1, 2}) {
      if (threads > processors) continue;
      for (const Cell& cell : all_cells()) {
        const std::string name = std::string(dtype.name) + "/t" + std::to_string(threads) + "/" + cell_name(cell);
        benchmark::RegisterBenchmark(name.c_str(), run_cell, cell, dtype, threads)->UseRealTime();
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::AddCustomContext("flashmoe", fms_version());
  const std::size_t count = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (count == 0) {
    std::fprintf(stderr, "attention_bench: --benchmark_filter matches nothing\n");
    return 2;
  }
}
