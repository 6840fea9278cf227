// fms_merge_states on the virtual GPU with every check on, judged by the fp64 oracle.
//
//   FMS_GPU_MERGES=n   random problems per dtype
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "cuda/gpu_run.hpp"
#include "cuda/graphs.hpp"
#include "cuda/mutated_kernel.hpp"
#include "kernels/cuda/launch/merge_launch.hpp"
#include "support/environment.hpp"
#include "support/merge_judge.hpp"
#include "support/number_format.hpp"
#include "support/random_problem.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double float_roundoff = 0x1p-24;
constexpr fms_dtype dtypes[] = {FMS_F16, FMS_BF16, FMS_F32};

const Gpu& merge_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);
    setenv("VGPU_SCHEDULE", "adversarial", 0);
    return Gpu();
  }();
  return only;
}

// A tensor of rows on the host and on the device, somewhere behind a multiple of 16 bytes. What lies between the rows
// is never anybody's business: it stays as it is.
class Rows {
 public:
  Rows(const fms_merge_problem& p, const fms_strides& strides, int64_t width, fms_dtype dtype, int64_t offset)
      : strides_(strides), width_(width), dtype_(dtype), offset_(offset) {
    const int64_t elements =
        (p.batch - 1) * strides.batch + (p.heads - 1) * strides.head + (p.len - 1) * strides.seq + width;
    const auto bytes = static_cast<std::size_t>(offset + elements) * element_bytes(dtype) + 32;
    host_.assign(bytes, std::byte{0xa5});
    buffer_.emplace(must(runtime::Buffer::create(merge_gpu().device(), bytes)));
  }
  int64_t at(int64_t b, int64_t h, int64_t i) const {
    return offset_ + b * strides_.batch + h * strides_.head + i * strides_.seq;
  }
  void set(int64_t element, double value) { store(host_.data(), dtype_, element, value); }
  double get(int64_t element) const { return load(host_.data(), dtype_, element); }
  const void* begin() const { return host_.data() + static_cast<std::size_t>(offset_) * element_bytes(dtype_); }
  void to_device() { must(buffer_->write(host_)); }
  void from_device() { must(buffer_->read(host_)); }
  std::vector<std::byte> on_device() const {
    std::vector<std::byte> bytes(host_.size());
    must(buffer_->read(bytes));
    return bytes;
  }
  template <class T = void>
  T* there() const {
    return reinterpret_cast<T*>(buffer_->address() + static_cast<std::size_t>(offset_) * element_bytes(dtype_));
  }
  const std::vector<std::byte>& bytes() const { return host_; }
  int64_t width() const { return width_; }

 private:
  fms_strides strides_;
  int64_t width_;
  fms_dtype dtype_;
  int64_t offset_;
  std::vector<std::byte> host_{};
  std::optional<runtime::Buffer> buffer_{};
};

template <class F>
void for_each_row(const fms_merge_problem& p, F f) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = 0; i < p.len; ++i) f(b, h, i);
}

struct Offsets {
  int64_t o_a = 0, o_b = 0, o = 0, lse = 0;
};

// Two states and a place for their union.
struct Merge {
  fms_merge_problem problem;
  Rows o_a, o_b, o, lse_a, lse_b, lse;

  explicit Merge(const fms_merge_problem& p, const Offsets& offsets = {})
      : problem(p),
        o_a(p, p.o_a, p.head_dim, p.dtype, offsets.o_a),
        o_b(p, p.o_b, p.head_dim, p.dtype, offsets.o_b),
        o(p, p.o, p.head_dim, p.dtype, offsets.o),
        lse_a(p, p.lse_a, 1, FMS_F32, offsets.lse),
        lse_b(p, p.lse_b, 1, FMS_F32, offsets.lse),
        lse(p, p.lse, 1, FMS_F32, offsets.lse) {}

  // A part without weight holds whatever its memory held.
  void fill(Random& random) {
    for (auto [values, sums] : {std::pair{&o_a, &lse_a}, std::pair{&o_b, &lse_b}}) {
      for_each_row(problem, [&](int64_t b, int64_t h, int64_t i) {
        const bool is_empty = random.chance(0.2);
        sums->set(sums->at(b, h, i), is_empty ? -infinity : 20 * random.normal());
        for (int64_t d = 0; d < values->width(); ++d)
          values->set(values->at(b, h, i) + d, is_empty ? std::nan("") : random.normal());
      });
    }
    to_device();
  }
  void to_device() {
    for (Rows* rows : {&o_a, &o_b, &o, &lse_a, &lse_b, &lse}) rows->to_device();
  }
  fms_status start(fms_error* error, fms_stream stream = nullptr) const { return start_into(o, lse, error, stream); }
  fms_status start_into(const Rows& to_o, const Rows& to_lse, fms_error* error, fms_stream stream = nullptr) const {
    return fms_merge_states(merge_gpu().context(), &problem, o_a.there(), lse_a.there<float>(), o_b.there(),
                            lse_b.there<float>(), to_o.there(), to_lse.there<float>(), stream, error);
  }
  void finish() {
    must(merge_gpu().device()->synchronize());
    o.from_device();
    lse.from_device();
  }
  void run() {
    fms_error error{};
    ASSERT_EQ(start(&error), FMS_OK) << to_string(error);
    finish();
  }

  // Of what is on the host.
  std::string complaint() const {
    return judge_merge(problem,
                       {o_a.begin(), o_b.begin(), static_cast<const float*>(lse_a.begin()),
                        static_cast<const float*>(lse_b.begin()), o.begin(), static_cast<const float*>(lse.begin())})
        .complaint;
  }
};

// Rows nested in any order, padded now and then; inputs may be broadcast.
fms_strides random_strides(Random& random, const fms_merge_problem& p, int64_t width, int64_t unit, bool is_input) {
  const int64_t sizes[3] = {p.batch, p.heads, p.len};
  int order[3] = {0, 1, 2};
  for (int i = 2; i > 0; --i) std::swap(order[i], order[random.between(0, i)]);
  int64_t strides[3] = {}, next = width;
  for (int i = 2; i >= 0; --i) {
    strides[order[i]] = next;
    next = next * sizes[order[i]] + (random.chance(0.3) ? unit * random.between(1, 3) : 0);
  }
  if (is_input && random.chance(0.2)) strides[random.between(0, 2)] = 0;
  return {strides[0], strides[1], strides[2]};
}

Merge random_merge(Random& random, fms_dtype dtype) {
  constexpr int64_t common[] = {64, 128, 96, 256, 40, 192};
  // Most problems have rows that can be loaded 16 bytes at once.
  const bool is_aligned = random.chance(0.6);
  const auto unit = is_aligned ? static_cast<int64_t>(16 / element_bytes(dtype)) : 1;
  fms_merge_problem p;
  fms_merge_problem_init(&p, dtype, random.between(1, 4), random.between(1, 5), random.between(1, 40),
                         is_aligned ? common[random.between(0, 5)] : random.between(1, 300));
  p.o_a = random_strides(random, p, p.head_dim, unit, true);
  p.o_b = random_strides(random, p, p.head_dim, unit, true);
  p.o = random_strides(random, p, p.head_dim, unit, false);
  p.lse_a = random_strides(random, p, 1, 1, true);
  p.lse_b = random_strides(random, p, 1, 1, true);
  p.lse = random_strides(random, p, 1, 1, false);
  Merge merge(
      p, {unit * random.between(0, 2), unit * random.between(0, 2), unit * random.between(0, 2), random.between(0, 3)});
  merge.fill(random);
  return merge;
}

void expect_no_findings() {
  const auto findings = merge_gpu().findings();
  EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600);
}

std::string describe(const fms_merge_problem& p) {
  return std::string(dtype_name(p.dtype)) + " " + std::to_string(p.batch) + " x " + std::to_string(p.heads) + " x " +
         std::to_string(p.len) + " x " + std::to_string(p.head_dim);
}

TEST(GpuMerge, AgreesWithTheOracleForAnyShapesAndStrides) {
  const uint64_t problems = from_environment("FMS_GPU_MERGES", 40);
  for (const fms_dtype dtype : dtypes) {
    for (uint64_t seed = 1; seed <= problems; ++seed) {
      Random random(seed);
      Merge merge = random_merge(random, dtype);
      const std::vector<std::byte> before = merge.o.bytes();
      merge.run();
      ASSERT_EQ(merge.complaint(), "") << "seed " << seed << ' ' << describe(merge.problem);
      // Between the rows nothing has changed.
      std::vector<bool> is_row(before.size());
      for_each_row(merge.problem, [&](int64_t b, int64_t h, int64_t i) {
        const auto begin = static_cast<std::size_t>(merge.o.at(b, h, i)) * element_bytes(dtype);
        std::fill_n(is_row.begin() + static_cast<std::ptrdiff_t>(begin),
                    static_cast<std::size_t>(merge.problem.head_dim) * element_bytes(dtype), true);
      });
      for (std::size_t at = 0; at < before.size(); ++at)
        ASSERT_TRUE(is_row[at] || before[at] == merge.o.bytes()[at]) << "seed " << seed << ", byte " << at;
    }
  }
  expect_no_findings();
}

TEST(GpuMerge, TheOrderOfTheTwoDoesNotMatter) {
  for (const fms_dtype dtype : dtypes) {
    Random random(7);
    fms_merge_problem p;
    fms_merge_problem_init(&p, dtype, 2, 3, 20, 72);
    Merge one(p), other(p);
    one.fill(random);
    one.run();
    std::swap(other.o_a, one.o_b);
    std::swap(other.o_b, one.o_a);
    std::swap(other.lse_a, one.lse_b);
    std::swap(other.lse_b, one.lse_a);
    other.to_device();
    other.run();
    EXPECT_EQ(one.o.bytes(), other.o.bytes());
    EXPECT_EQ(one.lse.bytes(), other.lse.bytes());
  }
  expect_no_findings();
}

// o over o_a and lse over lse_b, and the other way round.
// In 16-byte pieces, and element by element: two lanes have the halves of a word.
TEST(GpuMerge, TheOutputMayBeAnInput) {
  for (const auto& [dtype, dim] : {std::pair{FMS_F32, 136}, std::pair{FMS_F16, 136}, std::pair{FMS_BF16, 136},
                                   std::pair{FMS_F16, 33}, std::pair{FMS_BF16, 2}}) {
    Random random(12);
    fms_merge_problem p;
    fms_merge_problem_init(&p, dtype, 1, 2, 33, dim);
    Merge merge(p);
    merge.fill(random);
    merge.run();
    ASSERT_EQ(merge.complaint(), "");
    for (const auto& [o, lse] : {std::pair{&merge.o_a, &merge.lse_b}, std::pair{&merge.o_b, &merge.lse_a}}) {
      merge.to_device();
      fms_error error{};
      ASSERT_EQ(merge.start_into(*o, *lse, &error), FMS_OK) << to_string(error);
      must(merge_gpu().device()->synchronize());
      EXPECT_EQ(o->on_device(), merge.o.bytes());
      EXPECT_EQ(lse->on_device(), merge.lse.bytes());
    }
  }
  expect_no_findings();
}

// What the oracle cannot be asked for by a bound: exact zeros, untouched values, rows that are NaN.
TEST(GpuMerge, CornersAreDefined) {
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  for (const fms_dtype dtype : dtypes) {
    for (const int64_t dim : {64, 33}) {
      fms_merge_problem p;
      fms_merge_problem_init(&p, dtype, 1, 1, 6, dim);
      Merge merge(p);
      const float sums[6][2] = {{-infinity, -infinity}, {1.25F, -infinity},    {-infinity, -3.5F},
                                {not_a_number, 0.0F},   {-infinity, infinity}, {0.0F, -110.0F}};
      for (int64_t i = 0; i < p.len; ++i) {
        merge.lse_a.set(i, sums[i][0]);
        merge.lse_b.set(i, sums[i][1]);
        for (int64_t d = 0; d < dim; ++d) {
          merge.o_a.set(i * dim + d, sums[i][0] == -infinity ? std::nan("") : 1 + static_cast<double>(d % 7));
          // The last: a weight that rounds to 0 does not hide NaN.
          merge.o_b.set(i * dim + d, sums[i][1] == -infinity || i == 5 ? std::nan("") : -2.5);
        }
      }
      merge.to_device();
      merge.run();
      const float wanted_lse[6] = {-infinity, 1.25F, -3.5F, not_a_number, not_a_number, 0.0F};
      for (int64_t i = 0; i < p.len; ++i) {
        const double lse = merge.lse.get(i);
        EXPECT_TRUE(std::isnan(wanted_lse[i]) ? std::isnan(lse) : lse == wanted_lse[i]) << i << ": " << lse;
        for (int64_t d = 0; d < dim; ++d) {
          const double o = merge.o.get(i * dim + d), a = 1 + static_cast<double>(d % 7);
          const bool is_right = i == 0 ? o == 0 : i == 1 ? o == a : i == 2 ? o == -2.5 : std::isnan(o);
          ASSERT_TRUE(is_right) << "row " << i << ": " << o;
        }
      }
    }
  }
  expect_no_findings();
}

// Any number of states, one after the other into the first: the sums over all of them.
TEST(GpuMerge, StatesInARowAreTheirUnion) {
  for (const int states : {2, 3, 5, 8}) {
    Random random(static_cast<uint64_t>(states));
    fms_merge_problem p;
    fms_merge_problem_init(&p, FMS_F32, 2, 2, 9, 48);
    Merge merge(p);
    const int64_t rows = 2 * 2 * 9;
    std::vector<double> weight(rows), value(rows * 48);
    for (int state = 0; state < states; ++state) {
      Rows &o = state == 0 ? merge.o_a : merge.o_b, &lse = state == 0 ? merge.lse_a : merge.lse_b;
      for (int64_t row = 0; row < rows; ++row) {
        const auto sum = static_cast<float>(random.chance(0.2) ? -infinity : 2 * random.normal());
        lse.set(row, sum);
        weight[row] += std::exp(double{sum});
        for (int64_t d = 0; d < 48; ++d) {
          const double one = round_to(FMS_F32, random.normal());
          o.set(row * 48 + d, one);
          value[row * 48 + d] += std::exp(double{sum}) * one;
        }
      }
      o.to_device();
      lse.to_device();
      if (state == 0) continue;
      fms_error error{};
      ASSERT_EQ(merge.start_into(merge.o_a, merge.lse_a, &error), FMS_OK) << to_string(error);
      must(merge_gpu().device()->synchronize());
    }
    merge.o_a.from_device();
    merge.lse_a.from_device();
    for (int64_t row = 0; row < rows; ++row) {
      if (weight[row] == 0) {
        EXPECT_EQ(merge.lse_a.get(row), -infinity);
        continue;
      }
      // Values are within 6 of 0 and log-sum-exps within 12 of each other: 40 roundings a merge are plenty.
      const double bound = 6 * 40 * states * float_roundoff;
      EXPECT_NEAR(merge.lse_a.get(row), std::log(weight[row]), bound);
      for (int64_t d = 0; d < 48; ++d)
        ASSERT_NEAR(merge.o_a.get(row * 48 + d), value[row * 48 + d] / weight[row], bound);
    }
  }
  expect_no_findings();
}

// The first merge of this process is a captured one when this test runs alone; a capture of any mode survives it.
TEST(GpuMerge, IsCapturedAndReplayed) {
  const Graphs graphs(merge_gpu().driver());
  const runtime::cuda::Functions& call = merge_gpu().driver().call();
  runtime::cuda::StreamHandle stream = nullptr;
  ASSERT_EQ(call.stream_create(&stream, 1), runtime::cuda::success);
  Random random(5);
  fms_merge_problem p;
  fms_merge_problem_init(&p, FMS_BF16, 2, 4, 3, 128);
  Merge merge(p);
  merge.fill(random);
  ASSERT_EQ(graphs.begin(stream, runtime::cuda::CaptureMode::global), runtime::cuda::success);
  fms_error error{};
  EXPECT_EQ(merge.start(&error, stream), FMS_OK) << to_string(error);
  void *graph = nullptr, *exec = nullptr;
  ASSERT_EQ(graphs.end(stream, &graph), runtime::cuda::success);
  ASSERT_EQ(graphs.instantiate(&exec, graph, 0), runtime::cuda::success);
  for (int replay = 0; replay < 3; ++replay) {
    merge.fill(random);
    ASSERT_EQ(graphs.launch(exec, stream), runtime::cuda::success);
    ASSERT_EQ(call.stream_synchronize(stream), runtime::cuda::success);
    merge.finish();
    EXPECT_EQ(merge.complaint(), "") << "replay " << replay;
  }
  EXPECT_EQ(graphs.destroy_exec(exec), runtime::cuda::success);
  EXPECT_EQ(graphs.destroy(graph), runtime::cuda::success);
  EXPECT_EQ(call.stream_destroy(stream), runtime::cuda::success);
  expect_no_findings();
}

// Attention over some keys and over the others, merged, is attention over all.
TEST(GpuMerge, HalvesOfTheKeysAreTheWhole) {
  fms_merge_problem p;
  fms_merge_problem_init(&p, FMS_F16, 1, 2, 40, 64);
  Merge merge(p);
  const Shape shape{1, 2, 1, 40, 96, 64};
  AttentionCase whole = normal_case(simple_problem(FMS_F16, shape));
  ASSERT_EQ(merge_gpu().run(whole).status, FMS_OK);
  const auto part = [&](int64_t first, int64_t keys, Rows& o, Rows& lse) {
    fms_attention_problem problem = whole.problem();
    problem.kv_len = keys;
    AttentionCase half = normal_case(problem);  // its queries are the whole's: they are drawn first
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < 64; ++d) {
        const fms_attention_args args = whole.args();
        half.set(Tensor::kK, half.k_offset(0, 0, j) + d, load(args.k, FMS_F16, whole.k_offset(0, 0, first + j) + d));
        half.set(Tensor::kV, half.v_offset(0, 0, j) + d, load(args.v, FMS_F16, whole.v_offset(0, 0, first + j) + d));
      }
    ASSERT_EQ(half.q_value(3), whole.q_value(3));
    ASSERT_EQ(merge_gpu().run(half).status, FMS_OK);
    for (int64_t element = 0; element < 2 * 40 * 64; ++element) o.set(element, half.o_value(element));
    for (int64_t row = 0; row < 2 * 40; ++row) lse.set(row, half.lse_value(row));
  };
  part(0, 30, merge.o_a, merge.lse_a);
  part(30, 66, merge.o_b, merge.lse_b);
  merge.to_device();
  merge.run();
  const OracleAnswer oracle(whole);
  for (int64_t element = 0; element < 2 * 40 * 64; ++element) {
    // Weights, each part and the whole are rounded to fp16.
    const double bound = 4 * unit_roundoff(FMS_F16) * oracle.o_magnitude[static_cast<std::size_t>(element)];
    ASSERT_NEAR(merge.o.get(element), oracle.o[static_cast<std::size_t>(element)], bound) << element;
  }
  for (int64_t row = 0; row < 2 * 40; ++row)
    ASSERT_NEAR(merge.lse.get(row), oracle.lse[static_cast<std::size_t>(row)], 1e-3) << row;
  expect_no_findings();
}

TEST(GpuMerge, MistakesAreNamed) {
  fms_merge_problem p;
  fms_merge_problem_init(&p, FMS_F16, 1, 2, 4, 64);
  Merge merge(p);
  Random random(1);
  merge.fill(random);
  const auto complaint = [&](const fms_merge_problem& problem, const void* o_a, void* o, fms_status wanted) {
    fms_error error{};
    EXPECT_EQ(fms_merge_states(merge_gpu().context(), &problem, o_a, merge.lse_a.there<float>(), merge.o_b.there(),
                               merge.lse_b.there<float>(), o, merge.lse.there<float>(), nullptr, &error),
              wanted);
    return std::string(error.argument) + ": " + error.message;
  };
  EXPECT_EQ(complaint(p, nullptr, merge.o.there(), FMS_INVALID_ARGUMENT),
            "o_a: o_a is NULL; allowed: the tensor this problem asks for");
  const std::string odd = complaint(p, merge.o_a.there<char>() + 1, merge.o.there(), FMS_INVALID_ARGUMENT);
  EXPECT_NE(odd.find("divisible by its element size, 2"), std::string::npos) << odd;
  const std::string shared = complaint(p, merge.o_a.there(), merge.o_a.there<char>() + 16, FMS_INVALID_ARGUMENT);
  EXPECT_EQ(shared.find("o: "), 0U) << shared;
  fms_merge_problem large = p;
  large.batch = int64_t{1} << 20;
  large.heads = 64;
  large.len = 64;
  for (fms_strides* strides : {&large.o_a, &large.o_b, &large.o}) *strides = {64 * 64 * 64, 64 * 64, 64};
  for (fms_strides* strides : {&large.lse_a, &large.lse_b, &large.lse}) *strides = {64 * 64, 64, 1};
  auto* const far = reinterpret_cast<char*>(std::uintptr_t{1} << 50);
  fms_error error{};
  EXPECT_EQ(fms_merge_states(merge_gpu().context(), &large, far, reinterpret_cast<float*>(far + (int64_t{1} << 45)),
                             far, reinterpret_cast<float*>(far + (int64_t{1} << 45)), far + (int64_t{1} << 46),
                             reinterpret_cast<float*>(far + (int64_t{1} << 47)), nullptr, &error),
            FMS_NOT_SUPPORTED);
  EXPECT_NE(std::string(error.message).find("1048576 x 64 x 64 rows; allowed on a GPU: 1073741824"), std::string::npos)
      << error.message;
  large.batch = 0;
  EXPECT_EQ(complaint(large, nullptr, nullptr, FMS_OK), ": ");
  expect_no_findings();
}

// The kernel with one thing taken out, on a merge into its own input.
struct MergeNoticed {
  bool finding, wrong;
};
MergeNoticed merge_noticed(const Mutation& mutation) {
  const std::vector<char> image = mutated_image(
      "kernels/cuda/merge.cu", {"--std=c++20", "--device-as-default-execution-space", "--gpu-architecture=compute_80"},
      {&mutation, 1});
  const auto module = must(runtime::Module::load(merge_gpu().device(), std::as_bytes(std::span(image))));
  const runtime::Function kernel = must(module->function(cuda::merge_name));
  Random random(3);
  fms_merge_problem p;
  fms_merge_problem_init(&p, FMS_F16, 2, 3, 7, 72);
  Merge merge(p);
  merge.fill(random);
  cuda::MergeLaunch launch;
  EXPECT_EQ(cuda::merge_launch(p,
                               {merge.o_a.there(), merge.o_b.there(), merge.lse_a.there<float>(),
                                merge.lse_b.there<float>(), merge.o.there(), merge.lse_a.there<float>()},
                               launch, nullptr),
            FMS_OK);
  runtime::Geometry geometry;
  geometry.grid = {launch.ctas, 1, 1};
  geometry.block = {cuda::merge_threads, 1, 1};
  void* arguments[] = {&launch.params};
  static_cast<void>(merge_gpu().reports());
  must(kernel.launch(geometry, arguments));
  must(merge_gpu().device()->synchronize());
  merge.o.from_device();
  // The oracle wants the inputs as they were.
  const std::vector<std::byte> sums = merge.lse_a.on_device();
  for (int64_t row = 0; row < 2 * 3 * 7; ++row) merge.lse.set(row, load(sums.data(), FMS_F32, row));
  return {!merge_gpu().findings().empty(), !merge.complaint().empty()};
}

TEST(GpuMerge, MutationsAreNoticed) {
  const MergeNoticed none = merge_noticed({"nothing", nullptr, nullptr, nullptr});
  EXPECT_FALSE(none.finding || none.wrong);
  EXPECT_TRUE(merge_noticed({"the barrier before lse is written", "attention/merge.cuh", "__syncwarp();", ""}).finding);
  constexpr Mutation rules[] = {
      {"a part without weight is read", "attention/merge.cuh", "if (weights.has_b) ", ""},
      {"weights the wrong way round", "attention/merge.cuh", "b = __fdiv_rn(of_b, sum);", "b = __fdiv_rn(of_a, sum);"},
      {"the logarithm", "attention/merge.cuh", "top + logf(sum)", "top"},
      {"the head's stride", "attention/merge.cuh", "of_head - batch * p.heads", "0"},
      {"both parts empty", "attention/merge.cuh", "if (!has_a && !has_b) return;", ""},
  };
  for (const Mutation& mutation : rules) EXPECT_TRUE(merge_noticed(mutation).wrong) << mutation.name;
}

}  // namespace
}  // namespace flashmoe::testing
