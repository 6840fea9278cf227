// cublasLt as far as matmul goes: D = f(alpha * op(A) op(B) + beta * C + bias), in column- or row-major order, of one
// matrix or many a stride apart. What it has no answer for the heuristic refuses, as NVIDIA's does.
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "vgpu/cublas/gemm.hpp"
#include "vgpu/cublas/numbers.hpp"
#include "vgpu/cublas/product.hpp"
#include "vgpu/driver/log.hpp"

namespace flashmoe::vgpu::cublas {
namespace {

// Attributes lie in the opaque words of a descriptor, one behind the other.
struct Layout {
  std::int32_t type = 0, order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0, stride = 0;
  std::int32_t batch = 1;
};
struct Matmul {
  std::int32_t compute = 0, scale_type = 0, pointer_mode = CUBLAS_POINTER_MODE_HOST;
  std::int32_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N, op_c = CUBLAS_OP_N;
  std::int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT, bias_type = -1;
  const void* bias = nullptr;
  std::int64_t bias_stride = 0;
  std::int32_t unknown = 0;  // an attribute that changes results, and that nobody here knows: 1 + its number
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Matmul) <= sizeof(cublasLtMatmulDescOpaque_t));

// The opaque words as what lies in them.
template <class Inside, class Opaque>
Inside opened(const Opaque* opaque) {
  Inside inside;
  std::memcpy(static_cast<void*>(&inside), opaque, sizeof inside);
  return inside;
}
template <class Inside, class Opaque>
void close(const Inside& inside, Opaque* opaque) {
  std::memcpy(opaque, &inside, sizeof inside);
}

struct Field {
  void* at = nullptr;
  std::size_t bytes = 0;
};
template <class T>
Field field(T& member) {
  return {&member, sizeof member};
}

Field field_of(Layout& layout, int attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return field(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return field(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return field(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return field(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return field(layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return field(layout.batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return field(layout.stride);
    default:
      return {};
  }
}
Field field_of(Matmul& matmul, int attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return field(matmul.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return field(matmul.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return field(matmul.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return field(matmul.op_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return field(matmul.op_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return field(matmul.op_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return field(matmul.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return field(matmul.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return field(matmul.bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return field(matmul.bias_type);
    default:
      return {};
  }
}

template <class Inside, class Opaque>
cublasStatus_t set_attribute(Opaque* opaque, int attribute, const void* value, std::size_t bytes) {
  if (opaque == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto inside = opened<Inside>(opaque);
  const Field to = field_of(inside, attribute);
  if (to.bytes == 0) {
    if constexpr (std::is_same_v<Inside, Matmul>) {
      // How many SMs, and how exactly a GPU may sum.
      if (attribute == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET || attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM)
        return CUBLAS_STATUS_SUCCESS;
      inside.unknown = attribute + 1;
      close(inside, opaque);
      return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (bytes < to.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to.at, value, to.bytes);
  close(inside, opaque);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Inside, class Opaque>
cublasStatus_t get_attribute(const Opaque* opaque, int attribute, void* value, std::size_t bytes,
                             std::size_t* written) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto inside = opened<Inside>(opaque);
  const Field from = field_of(inside, attribute);
  if (from.bytes == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (written != nullptr) *written = from.bytes;
  if (bytes == 0 && written != nullptr) return CUBLAS_STATUS_SUCCESS;
  if (value == nullptr || bytes < from.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, from.at, from.bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// In memory of the caller's, who says how much it is.
template <class Opaque, class Inside>
cublasStatus_t init(Opaque* opaque, std::size_t bytes, const Inside& inside) {
  if (opaque == nullptr || bytes < sizeof *opaque) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = {};
  close(inside, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque, class Inside>
cublasStatus_t create(Opaque** out, const Inside& inside) {
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *out = new (std::nothrow) Opaque;
  return *out == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : init(*out, sizeof **out, inside);
}

struct Task {
  Matmul how;
  Layout a, b, c, d;
  const void *at_a = nullptr, *at_b = nullptr, *at_c = nullptr;
  void* at_d = nullptr;
  Scalar alpha, beta;

  static Matrix matrix(const Layout& layout, const void* at, int op, std::int64_t index) {
    const auto offset = index * layout.stride * static_cast<std::int64_t>(bytes_of(layout.type));
    Matrix made{.data = static_cast<const std::byte*>(at) + offset,
                .type = layout.type,
                .row_step = 1,
                .column_step = layout.ld};
    if (layout.order == CUBLASLT_ORDER_ROW) std::swap(made.row_step, made.column_step);
    if (op != CUBLAS_OP_N) std::swap(made.row_step, made.column_step);
    return made;
  }
  static bool may_touch(bool writes, const char* what, const Layout& layout, const void* at, const Access& access) {
    const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
    const std::size_t element = bytes_of(layout.type);
    const std::size_t piece = (by_rows ? layout.columns : layout.rows) * element;
    const std::size_t pieces = by_rows ? layout.rows : layout.columns;
    const std::size_t pitch = static_cast<std::size_t>(layout.ld) * element;
    return writes ? access.writes(what, at, piece, pieces, pitch) : access.reads(what, at, piece, pieces, pitch);
  }

  [[nodiscard]] bool has_bias() const { return (how.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  [[nodiscard]] int bias_type() const { return how.bias_type == -1 ? d.type : how.bias_type; }
  [[nodiscard]] Activation activation() const {
    if ((how.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return Activation::relu;
    return (how.epilogue & CUBLASLT_EPILOGUE_GELU) != 0 ? Activation::gelu : Activation::none;
  }

  void operator()(const Access& access) const {
    const auto scale = alpha.value("alpha", access), keep = beta.value("beta", access);
    if (!scale || !keep) return;
    for (std::int64_t i = 0; i < d.batch; ++i) {
      Product product{.m = static_cast<std::int64_t>(d.rows),
                      .n = static_cast<std::int64_t>(d.columns),
                      .k = static_cast<std::int64_t>(how.op_a == CUBLAS_OP_N ? a.columns : a.rows),
                      .a = matrix(a, at_a, how.op_a, i),
                      .b = matrix(b, at_b, how.op_b, i),
                      .c = matrix(c, at_c, CUBLAS_OP_N, i),
                      .d = matrix(d, at_d, CUBLAS_OP_N, i),
                      .alpha = *scale,
                      .beta = *keep,
                      .sums_in_double = computation(how.compute).sums_in_double,
                      .activation = activation()};
      if (!may_touch(false, "A", a, product.a.data, access) || !may_touch(false, "B", b, product.b.data, access))
        return;
      if (*keep != 0 && !may_touch(false, "C", c, product.c.data, access)) return;
      if (has_bias()) {
        product.bias_type = bias_type();
        const std::size_t element = bytes_of(product.bias_type);
        product.bias =
            static_cast<const std::byte*>(how.bias) + i * how.bias_stride * static_cast<std::int64_t>(element);
        if (!access.reads("the bias", product.bias, d.rows * element)) return;
      }
      if (!may_touch(true, "D", d, product.d.data, access)) return;
      multiply(product);
    }
  }
};

// Why it is not computed; empty: it is.
std::string refusal(const Matmul& how, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  if (how.unknown != 0) return fmt::format("attribute {} of its descriptor", how.unknown - 1);
  const Computation computed = computation(how.compute);
  if (!is_computed(computed, a.type, b.type, d.type) || c.type != d.type || how.scale_type != computed.scale_type)
    return fmt::format("types {}, {}, {} to {} (cudaDataType) by {} (cublasComputeType_t)", a.type, b.type, c.type,
                       d.type, how.compute);
  constexpr int known =
      CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU;
  if ((how.epilogue & ~known) != 0) return fmt::format("epilogue {}", how.epilogue);
  if (how.pointer_mode != CUBLAS_POINTER_MODE_HOST && how.pointer_mode != CUBLAS_POINTER_MODE_DEVICE)
    return fmt::format("pointer mode {}", how.pointer_mode);
  if (how.op_c != CUBLAS_OP_N) return "a transposed C";
  for (const Layout* one : {&a, &b, &c, &d})
    if (one->order != CUBLASLT_ORDER_COL && one->order != CUBLASLT_ORDER_ROW)
      return fmt::format("order {} of a matrix", one->order);
  return {};
}

// Whether it is refused, which is told once.
bool is_refused(const Matmul& how, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const std::string why = refusal(how, a, b, c, d);
  if (!why.empty()) driver::log_once(fmt::format("cublasLtMatmul with {}: CUBLAS_STATUS_NOT_SUPPORTED", why));
  return !why.empty();
}

bool fits(const Matmul& how, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const auto rows = [](const Layout& one, int op) { return op == CUBLAS_OP_N ? one.rows : one.columns; };
  const auto columns = [](const Layout& one, int op) { return op == CUBLAS_OP_N ? one.columns : one.rows; };
  const bool has_bias = (how.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  return rows(a, how.op_a) == d.rows && columns(b, how.op_b) == d.columns &&
         columns(a, how.op_a) == rows(b, how.op_b) && c.rows == d.rows && c.columns == d.columns &&
         a.batch == d.batch && b.batch == d.batch && c.batch == d.batch && (!has_bias || how.bias != nullptr);
}

}  // namespace
}  // namespace flashmoe::vgpu::cublas

using namespace flashmoe::vgpu::cublas;

VGPU_BLAS cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = nullptr;
  if (!make_ready()) return CUBLAS_STATUS_NOT_INITIALIZED;
  // A cublasHandle_t is one of these too: both are only asked whether they are there.
  *handle = reinterpret_cast<cublasLtHandle_t>(new (std::nothrow) cublasContext);
  return *handle == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete reinterpret_cast<cublasContext*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

VGPU_BLAS cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayoutOpaque_t* layout, std::size_t bytes,
                                                           int type, std::uint64_t rows, std::uint64_t columns,
                                                           std::int64_t ld) {
  return init(layout, bytes, Layout{.type = type, .rows = rows, .columns = columns, .ld = ld});
}
VGPU_BLAS cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayoutOpaque_t** layout, int type, std::uint64_t rows,
                                                    std::uint64_t columns, std::int64_t ld) {
  return create(layout, Layout{.type = type, .rows = rows, .columns = columns, .ld = ld});
}
VGPU_BLAS cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayoutOpaque_t* layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayoutOpaque_t* layout, int attribute,
                                                          const void* value, std::size_t bytes) {
  return set_attribute<Layout>(layout, attribute, value, bytes);
}
VGPU_BLAS cublasStatus_t cublasLtMatrixLayoutGetAttribute(const cublasLtMatrixLayoutOpaque_t* layout, int attribute,
                                                          void* value, std::size_t bytes, std::size_t* written) {
  return get_attribute<Layout>(layout, attribute, value, bytes, written);
}

VGPU_BLAS cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDescOpaque_t* matmul, std::size_t bytes,
                                                         int compute, int scale_type) {
  return init(matmul, bytes, Matmul{.compute = compute, .scale_type = scale_type});
}
VGPU_BLAS cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDescOpaque_t** matmul, int compute, int scale_type) {
  return create(matmul, Matmul{.compute = compute, .scale_type = scale_type});
}
VGPU_BLAS cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDescOpaque_t* matmul) {
  delete matmul;
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t* matmul, int attribute,
                                                        const void* value, std::size_t bytes) {
  return set_attribute<Matmul>(matmul, attribute, value, bytes);
}
VGPU_BLAS cublasStatus_t cublasLtMatmulDescGetAttribute(const cublasLtMatmulDescOpaque_t* matmul, int attribute,
                                                        void* value, std::size_t bytes, std::size_t* written) {
  return get_attribute<Matmul>(matmul, attribute, value, bytes, written);
}

// Preferences choose among algorithms, of which there is one.
VGPU_BLAS cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreferenceOpaque_t* preference,
                                                               std::size_t bytes) {
  return init(preference, bytes, cublasLtMatmulPreferenceOpaque_t{});
}
VGPU_BLAS cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreferenceOpaque_t** preference) {
  return create(preference, cublasLtMatmulPreferenceOpaque_t{});
}
VGPU_BLAS cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreferenceOpaque_t* preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t* preference,
                                                              int /*attribute*/, const void* value,
                                                              std::size_t /*bytes*/) {
  return preference == nullptr || value == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

VGPU_BLAS cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, const cublasLtMatmulDescOpaque_t* matmul, const cublasLtMatrixLayoutOpaque_t* a,
    const cublasLtMatrixLayoutOpaque_t* b, const cublasLtMatrixLayoutOpaque_t* c, const cublasLtMatrixLayoutOpaque_t* d,
    const cublasLtMatmulPreferenceOpaque_t* /*preference*/, int asked, cublasLtMatmulHeuristicResult_t* results,
    int* count) {
  if (count != nullptr) *count = 0;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (matmul == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr || results == nullptr ||
      count == nullptr || asked < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  return answered([&]() -> cublasStatus_t {
    if (is_refused(opened<Matmul>(matmul), opened<Layout>(a), opened<Layout>(b), opened<Layout>(c), opened<Layout>(d)))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}
// One algorithm for all.
VGPU_BLAS cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, int /*compute*/, int /*scale_type*/, int /*a*/,
                                                int /*b*/, int /*c*/, int /*d*/, int /*id*/,
                                                cublasLtMatmulAlgo_t* algorithm) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algorithm == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = {};
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm, int /*attribute*/,
                                                              const void* value, std::size_t /*bytes*/) {
  return algorithm == nullptr || value == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, const cublasLtMatmulDescOpaque_t* matmul, const cublasLtMatrixLayoutOpaque_t* a,
    const cublasLtMatrixLayoutOpaque_t* b, const cublasLtMatrixLayoutOpaque_t* c, const cublasLtMatrixLayoutOpaque_t* d,
    const cublasLtMatmulAlgo_t* /*algorithm*/, cublasLtMatmulHeuristicResult_t* result) {
  int count = 0;
  return cublasLtMatmulAlgoGetHeuristic(handle, matmul, a, b, c, d, nullptr, 1, result, &count);
}

VGPU_BLAS cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, const cublasLtMatmulDescOpaque_t* matmul,
                                        const void* alpha, const void* at_a, const cublasLtMatrixLayoutOpaque_t* a,
                                        const void* at_b, const cublasLtMatrixLayoutOpaque_t* b, const void* beta,
                                        const void* at_c, const cublasLtMatrixLayoutOpaque_t* c, void* at_d,
                                        const cublasLtMatrixLayoutOpaque_t* d,
                                        const cublasLtMatmulAlgo_t* /*algorithm*/, void* /*workspace*/,
                                        std::size_t /*workspace_bytes*/, CUstream stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (matmul == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr || alpha == nullptr ||
      beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  return answered([&]() -> cublasStatus_t {
    const auto how = opened<Matmul>(matmul);
    const bool on_device = how.pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
    const Task task{.how = how,
                    .a = opened<Layout>(a),
                    .b = opened<Layout>(b),
                    .c = opened<Layout>(c),
                    .d = opened<Layout>(d),
                    .at_a = at_a,
                    .at_b = at_b,
                    .at_c = at_c,
                    .at_d = at_d,
                    .alpha = Scalar(how.scale_type, alpha, on_device),
                    .beta = Scalar(how.scale_type, beta, on_device)};
    if (is_refused(how, task.a, task.b, task.c, task.d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!fits(how, task.a, task.b, task.c, task.d)) return CUBLAS_STATUS_INVALID_VALUE;
    return submit("cublasLtMatmul", stream, task);
  });
}
