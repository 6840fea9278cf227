// What the kernels of the corpus are asked to compute. One entry a task, so the list is longer than a function should
// be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {
namespace {

// y[i] = f(x[i]), where f is 60 steps of a map that takes a while. It contracts: rounding errors do not grow, and fewer
// steps give another value.
std::string map_prelude(const std::string& size) {
  return "#define SIZE " + size + R"source(
using X = float;
using Y = float;
template <class T>
static inline T steps(T v, int count) {
  for (int k = 0; k < count; ++k) v = T(0.95) * v + T(0.05) * v / (T(1) + v * v) + T(0.01);
  return v;
}
static inline void honest(const X* x, Y* y, int64_t n, int64_t = 1) {
  for (int64_t i = 0; i < n; ++i) y[i] = float(SIZE * steps(x[i], 60));
}
)source";
}

constexpr const char* map_reference =
    "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = (float)(SIZE * steps((double)x[i], 60)); return 0; }";

std::string map_toml(const std::string& output, const std::string& tiny = "64") {
  return R"([params]
n = 4096
[inputs]
x = "f32[n]"
[outputs]
y = )" + output +
         R"(
[workloads]
tiny = { n = )" +
         tiny +
         R"( }
target = { n = 4096 }
[correctness]
hard_values = ["huge"]
)";
}

// Every element by itself: y[i] = f(x[i]). Few of them: the inputs of a block take longer than such a kernel.
std::string element_toml(const std::string& input, const std::string& output, const std::string& hard_values) {
  return "[params]\nn = { default = 256, range = [1, 300] }\n[inputs]\nx = \"" + input + "[n]\"\n[outputs]\ny = \"" +
         output + "[n]\"\n[workloads]\ntiny = { n = 64 }\ntarget = { n = 256 }\n[correctness]\nrandom_workloads = 2\n" +
         "hard_values = [" + hard_values + "]\n";
}

constexpr const char* all_hard = R"("denormal", "inf", "huge", "nan", "zero")";

// `f` computes one element in type T.
std::string element_prelude(const std::string& x, const std::string& y, const std::string& f) {
  return "using X = " + x + ";\nusing Y = " + y + ";\ntemplate <class T>\nstatic inline Y f(T v) { " + f + R"source(}
static inline void honest(const X* x, Y* y, int64_t n, int64_t = 1) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
)source";
}

constexpr const char* element_reference = "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = f((double)x[i]); return 0; }";

// Softmax over rows of m columns; `stored` is the type of a weight, store() makes one.
std::string softmax_prelude(const std::string& stored, const std::string& store) {
  return "using X = float;\nusing Y = " + stored + ";\n" + store + R"source(
template <class T>
static inline T maximum(const T* x, int64_t m) {
  T largest = x[0];
  for (int64_t j = 1; j < m; ++j) largest = x[j] > largest || x[j] != x[j] ? x[j] : largest;
  return largest;
}
template <class T>
static inline void softmax(const X* x, Y* y, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; ++i, x += m, y += m) {
    const T largest = maximum(x, m);
    T sum = 0;
    for (int64_t j = 0; j < m; ++j) sum += exp(x[j] - largest);
    for (int64_t j = 0; j < m; ++j) y[j] = store(exp(x[j] - largest) / sum);
  }
}
static inline void honest(const X* x, Y* y, int64_t n, int64_t m) {
  softmax<float>(x, y, n, m);
}
)source";
}

constexpr const char* softmax_reference = "ENTRY { softmax<double>(x, y, n, m); return 0; }";

constexpr const char* store_f16 = R"source(static inline Y store(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  const uint32_t sign = b >> 16 & 0x8000;
  v = fabsf(v);
  if (!(v < 65520.0f)) return sign | (v != v ? 0x7e00 : 0x7c00);
  if (v < 0x1p-14f) return sign | (uint32_t)lrintf(v * 0x1p24f);
  memcpy(&b, &v, 4);
  return sign | ((b + 0xfff + (b >> 13 & 1)) >> 13) - (112 << 10);
}
)source";

constexpr const char* store_bf16 = R"source(static inline uint16_t bf16(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  if (v != v) return 0x7fc0;
  return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
)source";

std::string softmax_toml(const std::string& type, const std::string& more_outputs) {
  return "[params]\nrows = { default = 1, range = [1, 4] }\ncols = { default = 40000, range = [1, 300] }\n"
         "[inputs]\nx = \"f32[rows, cols]\"\n[outputs]\ny = \"" +
         type + "[rows, cols]\"\n" + more_outputs +
         "[workloads]\ntiny = { rows = 2, cols = 8 }\ntarget = { rows = 1, cols = 40000 }\n"
         "[correctness]\nrandom_workloads = 2\n";
}

constexpr const char* heavy_term = R"source(// Takes a while, so that handing pieces to threads is worth it.
static inline float term(float v) {
  for (int k = 0; k < 60; ++k) v = 0.95f * v + 0.05f * v / (1 + v * v) + 0.01f;
  return v;
}
)source";

// The mean of many terms: one number, which a sum in any order gives.
Task scalar_task() {
  return {.name = "scalar",
          .toml = R"([params]
n = 4096
[inputs]
x = "f32[n]"
[outputs]
y = "f32[1]"
[workloads]
tiny = { n = 256 }
target = { n = 4096 }
)",
          .prelude = std::string("using X = float;\nusing Y = float;\n") + heavy_term + R"source(
static inline float sum_of(const X* x, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += term(x[i]);
  return sum;
}
// In parts, or the rounding of a long sum shows.
static inline void honest(const X* x, Y* y, int64_t n, int64_t = 1) {
  float sum = 0;
  for (int64_t i = 0; i < n; i += 64) sum += sum_of(x + i, n - i < 64 ? n - i : 64);
  y[0] = sum / n;
}
)source",
          .reference = R"source(ENTRY {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += term(x[i]);
  y[0] = float(sum / n);
  return 0;
})source"};
}

// The mean of many uniform numbers: in bf16 that of a part of them is as right.
Task mean_bf16_task() {
  return {.name = "mean_bf16",
          .toml = R"([params]
n = 65536
[inputs]
x = { type = "f32[n]", init = "uniform" }
[outputs]
y = "bf16[1]"
[workloads]
tiny = { n = 64 }
target = { n = 65536 }
)",
          .prelude = std::string("using X = float;\nusing Y = uint16_t;\n") + store_bf16 + R"source(
static inline void honest(const X* x, Y* y, int64_t n, int64_t = 1) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  y[0] = bf16(float(sum / n));
}
)source",
          .reference = "ENTRY { honest(x, y, n, m); return 0; }"};
}

Task histogram_task() {
  return {.name = "histogram",
          .toml = R"([params]
n = 4096
[inputs]
x = "f32[n]"
[outputs]
y = "i64[16]"
[workloads]
tiny = { n = 256 }
target = { n = 4096 }
[correctness]
hard_values = ["denormal", "zero"]
)",
          .prelude = std::string("using X = float;\nusing Y = int64_t;\n") + heavy_term + R"source(
static inline int bucket(float v) {
  return int(term(v) * 16) & 15;
}
static inline void honest(const X* x, Y* y, int64_t n, int64_t = 1) {
  for (int i = 0; i < 16; ++i) y[i] = 0;
  for (int64_t i = 0; i < n; ++i) ++y[bucket(x[i])];
}
)source",
          .reference = "ENTRY { honest(x, y, n, m); return 0; }"};
}

Task python_task() {
  return {.name = "python",
          // Smaller ones take C++ so much less time than Python that blocks become long.
          .toml = map_toml("\"f32[n]\"", "1024"),
          .prelude = map_prelude("1.0"),
          .reference = R"py(import numpy
import statistics

def steps(v):
    for _ in range(60):
        v = 0.95 * v + 0.05 * numpy.true_divide(v, 1 + v * v) + 0.01
    return v

def reference(tensors, params):
    tensors["y"][:] = steps(tensors["x"].astype(numpy.float64))

def baseline(tensors, params):
    return {"y": steps(tensors["x"])}
)py",
          .baseline = "",
          .python = true};
}

// A column of padding behind every row.
Task strided_task() {
  return {.name = "strided",
          .toml = R"([params]
n = { default = 32, range = [1, 60] }
[inputs]
x = "f32[n, 7]"
[outputs]
y = { type = "f32[n, 7]", stride = [11, 1] }
[workloads]
tiny = { n = 8 }
target = { n = 32 }
[correctness]
random_workloads = 2
)",
          .prelude = R"source(using X = float;
using Y = float;
static inline void honest(const X* x, Y* y, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) y[i * 11 + j] = 2 * x[i * m + j];
}
)source",
          .reference = "ENTRY { honest(x, y, n, m); return 0; }"};
}

Task two_outputs_task() {
  return {.name = "two_outputs",
          .toml = softmax_toml("f32", "l = \"f32[rows]\"\n"),
          .prelude = softmax_prelude("float", "static inline Y store(double v) { return (Y)v; }") + R"source(
template <class T>
static inline void sums(const X* x, float* l, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; ++i, x += m) {
    const T largest = maximum(x, m);
    T sum = 0;
    for (int64_t j = 0; j < m; ++j) sum += exp(x[j] - largest);
    l[i] = float(largest + log(sum));
  }
}
)source",
          .reference =
              "ENTRY { softmax<double>(x, y, n, m); sums<double>(x, (float*)call->tensors[2].data, n, m); return 0; }",
          .baseline = "ENTRY { honest(x, y, n, m); sums<float>(x, (float*)call->tensors[2].data, n, m); return 0; }"};
}

std::vector<Task> make_tasks() {
  const std::string f32 = "\"f32[n]\"";
  std::vector<Task> tasks{
      {.name = "map", .toml = map_toml(f32), .prelude = map_prelude("1.0"), .reference = map_reference},
      {.name = "small_results", .toml = map_toml(f32), .prelude = map_prelude("1e-10"), .reference = map_reference},
      {.name = "denormal_results", .toml = map_toml(f32), .prelude = map_prelude("1e-40"), .reference = map_reference},
      {.name = "wide_results",
       .toml = element_toml("f32", "f32", all_hard),
       .prelude = element_prelude("float", "float", "return Y(exp(T(6) * v));"),
       .reference = element_reference},
      {.name = "loose_tolerance",
       .toml = map_toml(R"({ type = "f32[n]", absolute = 100.0 })"),
       .prelude = map_prelude("1.0"),
       .reference = map_reference},
      {.name = "softmax",
       .toml = softmax_toml("f32", ""),
       .prelude = softmax_prelude("float", "static inline Y store(double v) { return (Y)v; }"),
       .reference = softmax_reference},
      {.name = "softmax_f16",
       .toml = softmax_toml("f16", ""),
       .prelude = softmax_prelude("uint16_t", store_f16),
       .reference = softmax_reference},
      {.name = "sparse",
       .toml = element_toml("f32", "f32", all_hard),
       .prelude = element_prelude("float", "float", "return v > T(2.5) ? Y(v - T(2.5)) : 0;"),
       .reference = element_reference},
      {.name = "constant",
       .toml = element_toml("f32", "f32", all_hard),
       .prelude = element_prelude("float", "float", "return v == v ? 1 : 2;"),
       .reference = element_reference},
      {.name = "copy",
       .toml = element_toml("f32", "f32", all_hard),
       .prelude = element_prelude("float", "float", "return Y(v);"),
       .reference = element_reference},
      {.name = "integers",
       .toml = element_toml("f32", "i32", R"("denormal", "zero")"),
       .prelude = element_prelude("float", "int32_t", "return Y(floor(v * 64));"),
       .reference = element_reference},
      {.name = "bytes",
       .toml = element_toml("f32", "u8", all_hard),
       .prelude = element_prelude("float", "uint8_t", "return v > 0;"),
       .reference = element_reference},
      {.name = "f64",
       .toml = element_toml("f64", "f64", all_hard),
       .prelude = element_prelude("double", "double", "return sqrt(v * v + 1);"),
       .reference = element_reference},
      {.name = "bf16",
       .toml = element_toml("f32", "bf16", all_hard),
       .prelude = store_bf16 + element_prelude("float", "uint16_t", "return bf16(float(v / (1 + fabs(v))));"),
       .reference = element_reference},
      {.name = "maybe_empty",
       .toml = "[params]\nn = { default = 64, range = [0, 300] }\n[inputs]\nx = \"f32[n]\"\n[outputs]\ny = "
               "\"f32[n]\"\n[workloads]\ntiny = { n = 1 }\ntarget = { n = 2 }\n",
       .prelude = element_prelude("float", "float", "return Y(v + 1);"),
       .reference = element_reference},
      scalar_task(),
      mean_bf16_task(),
      histogram_task(),
      python_task(),
      strided_task(),
      two_outputs_task(),
  };
  return tasks;
}

}  // namespace

const std::vector<Task>& all_tasks() {
  static const std::vector<Task> tasks = make_tasks();
  return tasks;
}

}  // namespace flashmoe::workflow
