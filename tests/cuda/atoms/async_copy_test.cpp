// async_copy.cuh: groups land in their order, nothing is read where nothing is, and a forgotten wait is found.
#include "cuda/atoms/atom_kernels.hpp"

namespace flashmoe::testing {
namespace {

std::vector<uint32_t> counted(uint32_t first) {
  std::vector<uint32_t> values(128);
  for (uint32_t i = 0; i < 128; ++i) values[i] = first + i;
  return values;
}

TEST_P(Atoms, GroupsOfCopiesLandInOrder) {
  const DeviceVector<uint32_t> first(counted(1000)), second(counted(5000)), to(256);
  const auto findings =
      launch(kernel("async_copy.cu", "two_groups"), 1, 32, first.address(), second.address(), to.address());
  EXPECT_TRUE(findings.empty()) << findings.front();
  const auto got = to.values();
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(got[lane * 4 + i], 1000 + (31 - lane) * 4 + i);
      EXPECT_EQ(got[128 + lane * 4 + i], 5000 + (31 - lane) * 4 + i);
    }
}

TEST_P(Atoms, WhereNothingIsThereAreZerosAndNothingIsRead) {
  for (const uint32_t is_there : {0U, 0xffffffffU, 0x5a0ff012U}) {
    const DeviceVector<uint32_t> from(counted(1)), to(128);
    const auto findings = launch(kernel("async_copy.cu", "zero_fill"), 1, 32, from.address(), is_there, to.address());
    EXPECT_TRUE(findings.empty()) << findings.front();
    const auto got = to.values();
    for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], (is_there >> i / 4 & 1) != 0 ? 1 + i : 0) << i;
  }
}

TEST_P(Atoms, AForgottenWaitIsFound) {
  const DeviceVector<uint32_t> from(counted(1)), to(128);
  EXPECT_FALSE(launch(kernel("async_copy.cu", "forgets_to_wait"), 1, 32, from.address(), to.address()).empty());
}

}  // namespace
}  // namespace flashmoe::testing
