// FlashMoE-Science for C++20: the C ABI of flashmoe.h with values, lifetimes and exceptions. Header only; what the
// words mean (masks, corners, strides, who may share what between threads) is said in flashmoe.h.
//
//   flashmoe::Context context;                                              // this machine's best ISA
//   auto problem = flashmoe::Problem(FMS_F16, {.q_heads = 32, .kv_heads = 8, .q_len = 512, .head_dim = 128}).causal();
//   flashmoe::Plan plan = context.plan(problem);                            // decide once; plan.explain() says why
//   flashmoe::Workspace workspace(plan);
//   context.run(plan, {.q = q, .k = k, .v = v, .o = o}, workspace);         // run often; allocates nothing
#ifndef FLASHMOE_ATTENTION_HPP
#define FLASHMOE_ATTENTION_HPP

#include <flashmoe/flashmoe.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace flashmoe {

// What every function here throws; the C error is inside.
class Error : public std::runtime_error {
 public:
  explicit Error(const fms_error& error) : std::runtime_error(text(error)), error_(error) {}

  [[nodiscard]] fms_status code() const noexcept { return error_.code; }
  [[nodiscard]] const char* argument() const noexcept { return error_.argument; }  // "" when no single one is to blame
  [[nodiscard]] const fms_error& details() const noexcept { return error_; }

 private:
  static std::string text(const fms_error& error) {
    return std::string(fms_status_name(error.code)) + ": " + error.message;
  }

  fms_error error_;
};

// Calls a C function that takes an fms_error* as its last argument; throws what it reports.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  fms_error error{};
  if (function(arguments..., &error) != FMS_OK) throw Error(error);
}

// (B, H, S, D) or (B, S, H, D), contiguous.
enum class Layout { bhsd, bshd };

struct Shape {
  std::int64_t batch = 1;
  std::int64_t q_heads = 1;
  std::int64_t kv_heads = -1;  // -1: as many as q_heads
  std::int64_t q_len = 1;
  std::int64_t kv_len = -1;  // -1: as long as q_len
  std::int64_t head_dim = 64;
  std::int64_t value_dim = -1;  // -1: head_dim
};

// What to compute, without data. A value; every setter returns it, so that a description reads in one line.
class Problem {
 public:
  Problem(fms_dtype dtype, const Shape& shape, Layout layout = Layout::bhsd) {
    fms_attention_problem_init(&problem_, dtype, shape.batch, shape.q_heads,
                               shape.kv_heads < 0 ? shape.q_heads : shape.kv_heads, shape.q_len,
                               shape.kv_len < 0 ? shape.q_len : shape.kv_len, shape.head_dim);
    if (shape.value_dim >= 0) problem_.value_dim = shape.value_dim;
    problem_.q = strides(layout, problem_.q_len, problem_.q_heads, problem_.head_dim);
    problem_.o = strides(layout, problem_.q_len, problem_.q_heads, problem_.value_dim);
    set_keys(layout, problem_.kv_len);
  }

  // The last query row is aligned to the last key.
  Problem& causal(bool on = true) {
    problem_.window_right = on ? 0 : -1;
    return *this;
  }
  // Keys i' - left ... i' + right around the row's own position; -1 is unbounded.
  Problem& window(std::int64_t left, std::int64_t right) {
    problem_.window_left = left;
    problem_.window_right = right;
    return *this;
  }
  Problem& softmax_scale(float scale) {
    problem_.softmax_scale = scale;
    return *this;
  }
  Problem& softcap(float cap) {
    problem_.softcap = cap;
    return *this;
  }
  // run writes args.lse, (B, H, S) unless its strides are changed.
  Problem& lse() { return with(FMS_LSE); }
  // run reads args.sinks, one per query head.
  Problem& sinks() { return with(FMS_SINKS); }
  // run reads args.bias; a stride of 0 broadcasts, and a group of neighbours in the batch may share an entry.
  Problem& bias(fms_dtype dtype, const fms_bias_strides& strides) {
    problem_.bias_dtype = dtype;
    problem_.bias = strides;
    return with(FMS_BIAS);
  }
  // And args.bias2, a term of its own.
  Problem& bias2(fms_dtype dtype, const fms_bias_strides& strides) {
    problem_.bias2_dtype = dtype;
    problem_.bias2 = strides;
    return with(FMS_BIAS2);
  }
  // run reads args.mask, bytes: 0 hides the key from the row. Strides as those of a bias.
  Problem& mask(const fms_bias_strides& strides) {
    problem_.mask = strides;
    return with(FMS_MASK);
  }
  // q and o are (total_q, H, D) packed by args.cu_q, lse is (H, total_q); the shape's q_len is the longest sequence's.
  Problem& ragged_q(std::int64_t total_q) {
    problem_.total_q = total_q;
    problem_.q = strides(Layout::bshd, total_q, problem_.q_heads, problem_.head_dim);
    problem_.o = strides(Layout::bshd, total_q, problem_.q_heads, problem_.value_dim);
    problem_.lse = {.batch = 0, .head = total_q, .seq = 1};
    return with(FMS_RAGGED_Q);
  }
  // k and v are (total_kv, Hkv, D) packed by args.cu_kv; the shape's kv_len is the longest sequence's.
  Problem& ragged_kv(std::int64_t total_kv) {
    problem_.total_kv = total_kv;
    set_keys(Layout::bshd, total_kv);
    return with(FMS_RAGGED_KV);
  }
  // Only the first args.kv_lengths[b] keys of sequence b exist.
  Problem& kv_lengths() { return with(FMS_KV_LENGTHS); }
  // Keys of sequence b before args.kv_starts[b] do not exist: a batch padded at its left.
  Problem& kv_starts() { return with(FMS_KV_STARTS); }
  // Only the first args.q_lengths[b] rows of sequence b exist.
  Problem& q_lengths() { return with(FMS_Q_LENGTHS); }
  // Windows, and so causal, align the first row to the first key instead of the last to the last.
  Problem& top_left() { return with(FMS_TOP_LEFT); }
  // k and v are of 8 bits, times args.k_scales and args.v_scales, one per kv head.
  Problem& kv_scales(fms_kv_dtype dtype = FMS_KV_F8_E4M3) {
    problem_.kv_dtype = dtype;
    return with(FMS_KV_SCALES);
  }
  // o is fp32, a part that is to be merged.
  Problem& partial() { return with(FMS_PARTIAL); }
  // k and v are (page_count, page_size, Hkv, D); args.block_table is (batch, block_table_stride).
  Problem& paged_kv(std::int64_t page_size, std::int64_t page_count, std::int64_t block_table_stride) {
    problem_.page_size = page_size;
    problem_.page_count = page_count;
    problem_.block_table_stride = block_table_stride;
    set_keys(Layout::bshd, page_size);
    return with(FMS_PAGED_KV);
  }

  // Throws Error when no device could run it.
  void check() const { call(fms_attention_problem_check, &problem_); }

  // The C struct: for strides of your own, and whatever else has no setter.
  [[nodiscard]] fms_attention_problem& raw() noexcept { return problem_; }
  [[nodiscard]] const fms_attention_problem& raw() const noexcept { return problem_; }

 private:
  Problem& with(fms_feature feature) {
    problem_.features |= static_cast<std::uint32_t>(feature);
    return *this;
  }
  void set_keys(Layout layout, std::int64_t rows) {
    problem_.k = strides(layout, rows, problem_.kv_heads, problem_.head_dim);
    problem_.v = strides(layout, rows, problem_.kv_heads, problem_.value_dim);
  }
  static fms_strides strides(Layout layout, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
    if (layout == Layout::bshd) return {.batch = rows * heads * dim, .head = dim, .seq = heads * dim};
    return {.batch = heads * rows * dim, .head = rows * dim, .seq = dim};
  }

  fms_attention_problem problem_{};
};

// What to force; zero lets the planner choose.
struct PlanOptions {
  std::int32_t threads = 0;
  std::int32_t kv_splits = 0;
  std::int32_t q_tile = 0;
};

// The choices made for a problem. A value: copy it, compare it, print it.
class Plan {
 public:
  explicit Plan(const fms_attention_plan& plan) : plan_(plan) {}

  [[nodiscard]] std::string explain() const { return text(fms_plan_explain); }  // for people
  [[nodiscard]] std::string json() const { return text(fms_plan_json); }        // for programs
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return plan_.workspace_bytes; }
  [[nodiscard]] const fms_attention_plan& raw() const noexcept { return plan_; }

  // The fingerprint covers the problem and every choice.
  friend bool operator==(const Plan& a, const Plan& b) noexcept {
    return a.plan_.version == b.plan_.version && a.plan_.fingerprint == b.plan_.fingerprint;
  }

 private:
  [[nodiscard]] std::string text(std::size_t (*print)(const fms_attention_plan*, char*, std::size_t)) const {
    std::string text(print(&plan_, nullptr, 0), '\0');
    print(&plan_, text.data(), text.size() + 1);  // a string has room for its NUL
    return text;
  }

  fms_attention_plan plan_;
};

// Scratch memory for one run at a time; several plans may take turns in the largest one's.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : data_(bytes == 0 ? nullptr : allocate(bytes)), bytes_(bytes) {}
  explicit Workspace(const Plan& plan) : Workspace(plan.workspace_bytes()) {}

  [[nodiscard]] void* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::align_val_t alignment{FMS_WORKSPACE_ALIGNMENT};
  struct Free {
    void operator()(void* data) const noexcept { ::operator delete(data, alignment); }
  };
  static void* allocate(std::size_t bytes) { return ::operator new(bytes, alignment); }

  std::unique_ptr<void, Free> data_;
  std::size_t bytes_;
};

// Pointers for one run. Those of features that the problem does not have stay null.
struct Args {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;
  const void* bias = nullptr;
  const void* bias2 = nullptr;
  const std::uint8_t* mask = nullptr;
  const float* sinks = nullptr;
  const std::int32_t* cu_q = nullptr;
  const std::int32_t* cu_kv = nullptr;
  const std::int32_t* kv_lengths = nullptr;
  const std::int32_t* block_table = nullptr;
  const std::int32_t* kv_starts = nullptr;
  const std::int32_t* q_lengths = nullptr;
  const float* k_scales = nullptr;
  const float* v_scales = nullptr;
  std::uint32_t flags = 0;  // fms_run_flag bits
};

// Two partial results over disjoint keys and where their union goes; o and lse may be o_a and lse_a, or those of b.
struct MergeArgs {
  const void* o_a = nullptr;
  const float* lse_a = nullptr;
  const void* o_b = nullptr;
  const float* lse_b = nullptr;
  void* o = nullptr;
  float* lse = nullptr;
};

// A device. Movable; may be shared by any number of threads.
class Context {
 public:
  // The CPU. AUTO: FLASHMOE_CPU_ISA if set, else the best this machine has.
  explicit Context(fms_cpu_isa isa = FMS_ISA_AUTO)
      : Context(fms_context_options{sizeof(fms_context_options), FMS_DEVICE_CPU, 0, isa}) {}
  explicit Context(const fms_context_options& options) {
    fms_context* context = nullptr;
    call(fms_context_create, &options, &context);
    context_.reset(context);
  }

  // A GPU: pointers are the device's, and the caller's CUDA context is current.
  [[nodiscard]] static Context cuda(int index = 0) {
    return Context(fms_context_options{sizeof(fms_context_options), FMS_DEVICE_CUDA, index, FMS_ISA_AUTO});
  }

  [[nodiscard]] fms_cpu_isa cpu_isa() const noexcept { return fms_context_cpu_isa(context_.get()); }
  [[nodiscard]] const fms_context* raw() const noexcept { return context_.get(); }

  [[nodiscard]] Plan plan(const Problem& problem, const PlanOptions& options = {}) const {
    const fms_plan_options c_options{sizeof(fms_plan_options), options.threads, options.kv_splits, options.q_tile};
    fms_attention_plan plan{};
    plan.struct_size = sizeof plan;
    call(fms_attention_plan_make, raw(), &problem.raw(), &c_options, &plan);
    return Plan(plan);
  }

  // Loads or compiles what the plan runs, which its first run would do.
  void prepare(const Plan& plan) const { call(fms_attention_prepare, raw(), &plan.raw()); }

  // Returns what really ran.
  fms_run_info run(const Plan& plan, const Args& args, const Workspace& workspace, fms_stream stream = nullptr) const {
    return run(plan, args, workspace.data(), workspace.bytes(), stream);
  }
  // With a workspace of the caller's: on a GPU, device memory.
  fms_run_info run(const Plan& plan, const Args& args, void* workspace, size_t workspace_bytes,
                   fms_stream stream = nullptr) const {
    fms_run_info info{};
    const fms_attention_args c_args{.struct_size = sizeof(fms_attention_args),
                                    .flags = args.flags,
                                    .q = args.q,
                                    .k = args.k,
                                    .v = args.v,
                                    .o = args.o,
                                    .lse = args.lse,
                                    .bias = args.bias,
                                    .sinks = args.sinks,
                                    .cu_q = args.cu_q,
                                    .cu_kv = args.cu_kv,
                                    .kv_lengths = args.kv_lengths,
                                    .block_table = args.block_table,
                                    .bias2 = args.bias2,
                                    .mask = args.mask,
                                    .kv_starts = args.kv_starts,
                                    .q_lengths = args.q_lengths,
                                    .k_scales = args.k_scales,
                                    .v_scales = args.v_scales,
                                    .info = &info};
    call(fms_attention_run, raw(), &plan.raw(), &c_args, workspace, workspace_bytes, stream);
    return info;
  }
  // Allocates a workspace for this one call; it may go when run returns, so only where run waits for the result.
  fms_run_info run(const Plan& plan, const Args& args) const { return run(plan, args, Workspace(plan)); }

  void merge_states(const fms_merge_problem& problem, const MergeArgs& args, fms_stream stream = nullptr) const {
    call(fms_merge_states, raw(), &problem, args.o_a, args.lse_a, args.o_b, args.lse_b, args.o, args.lse, stream);
  }

 private:
  struct Destroy {
    void operator()(fms_context* context) const noexcept { fms_context_destroy(context); }
  };
  std::unique_ptr<fms_context, Destroy> context_;
};

}  // namespace flashmoe

#endif  // FLASHMOE_ATTENTION_HPP
