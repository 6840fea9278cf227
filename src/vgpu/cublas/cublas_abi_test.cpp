// Our declarations against the toolkit's headers, and the lists of names against its libraries: fails without a
// CUDA 13.0 toolkit.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "images/exported_names.hpp"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>
namespace ours {
#include "vgpu/cublas/cublas_abi.hpp"
}

namespace {

TEST(CublasAbi, ValuesAreTheToolkits) {
#define VGPU_BLAS_VALUE(name, value) EXPECT_EQ(static_cast<int>(::name), value) << #name;
#include "vgpu/cublas/values.def"
#undef VGPU_BLAS_VALUE
#define VGPU_BLAS_STATUS(name, value) EXPECT_EQ(static_cast<int>(::name), value) << #name;
#include "vgpu/cublas/statuses.def"
#undef VGPU_BLAS_STATUS
}

TEST(CublasAbi, StructuresLieAlike) {
  EXPECT_EQ(sizeof(ours::cublasLtMatrixLayoutOpaque_t), sizeof(::cublasLtMatrixLayoutOpaque_t));
  EXPECT_EQ(sizeof(ours::cublasLtMatmulDescOpaque_t), sizeof(::cublasLtMatmulDescOpaque_t));
  EXPECT_EQ(sizeof(ours::cublasLtMatmulPreferenceOpaque_t), sizeof(::cublasLtMatmulPreferenceOpaque_t));
  EXPECT_EQ(sizeof(ours::cublasLtMatmulHeuristicResult_t), sizeof(::cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(ours::cublasLtMatmulHeuristicResult_t, state), offsetof(::cublasLtMatmulHeuristicResult_t, state));
  EXPECT_EQ(offsetof(ours::cublasLtMatmulHeuristicResult_t, wavesCount),
            offsetof(::cublasLtMatmulHeuristicResult_t, wavesCount));
}

std::set<std::string> exported(const std::string& library) {
  return flashmoe::exported_names(library, [](std::string_view name) { return name.starts_with("cublas"); });
}

TEST(CublasAbi, NamesAreThoseOfTheToolkitsLibraries) {
  std::set<std::string> listed, lt_listed;
#define VGPU_BLAS_NAME(name) listed.emplace(#name);
#include "vgpu/cublas/names.def"
#undef VGPU_BLAS_NAME
#define VGPU_BLAS_NAME(name) lt_listed.emplace(#name);
#include "vgpu/cublas/lt_names.def"
#undef VGPU_BLAS_NAME
  EXPECT_GT(listed.size(), 700U);
  EXPECT_EQ(listed, exported(REAL_CUBLAS));
  EXPECT_EQ(exported(OUR_CUBLAS), listed);
  EXPECT_EQ(lt_listed, exported(REAL_CUBLASLT));
  EXPECT_EQ(exported(OUR_CUBLASLT), lt_listed);
}

}  // namespace
#else
TEST(CublasAbi, NeedsTheToolkit) {
  FAIL() << "no cublasLt.h; set CUDA_HOME";
}
#endif
