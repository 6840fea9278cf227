// Bytes that the program reads though nothing wrote them: copies to the host, under initcheck.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vgpu/driver/loaded_driver.hpp"

namespace flashmoe::vgpu::driver {
namespace {

class Copies : public Driver {
 protected:
  static void SetUpTestSuite() {
    report_ = std::filesystem::temp_directory_path() / ("vgpu-copies-" + std::to_string(getpid()));
    setenv("VGPU_CHECK", "initcheck", 1);
    setenv("VGPU_REPORT", report_.c_str(), 1);
    Driver::SetUpTestSuite();
  }
  static void TearDownTestSuite() { std::filesystem::remove(report_); }

  CUdeviceptr allocated(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(call("cuMemAlloc_v2", &address, bytes), CUDA_SUCCESS);
    return address;
  }
  void write_words(CUdeviceptr to, unsigned count) {  // by a kernel
    unsigned value = 7;
    std::array<void*, 2> parameters{&to, &value};
    EXPECT_EQ(launch(function(linked(), "fill"), 1, count, 0, parameters.data()), CUDA_SUCCESS);
  }
  // What a copy of so many bytes adds to the report.
  std::vector<std::string> findings_of_copy(CUdeviceptr from, std::size_t bytes) {
    const std::size_t known = messages().size();
    std::vector<char> host(bytes);
    EXPECT_EQ(call("cuMemcpyDtoH_v2", static_cast<void*>(host.data()), from, bytes), CUDA_SUCCESS);
    std::vector<std::string> all = messages();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(known));
    return all;
  }

 private:
  static std::vector<std::string> messages() {
    std::vector<std::string> all;
    std::ifstream file(report_);
    for (std::string line; std::getline(file, line);) {
      const auto told = nlohmann::json::parse(line);
      for (const auto& finding : told["findings"]) {
        EXPECT_EQ(finding["check"], "initcheck");
        all.push_back(finding["message"]);
      }
    }
    return all;
  }
  static inline std::filesystem::path report_{};
};

TEST_F(Copies, OfBytesThatNothingWroteAreToldOncePerBuffer) {
  const CUdeviceptr buffer = allocated(256);
  write_words(buffer, 32);
  EXPECT_TRUE(findings_of_copy(buffer, 128).empty());
  const auto found = findings_of_copy(buffer, 256);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("128 of 256 bytes copied to the host"), std::string::npos) << found[0];
  EXPECT_NE(found[0].find("the first is byte 128"), std::string::npos) << found[0];
  EXPECT_TRUE(findings_of_copy(buffer, 256).empty());
}

TEST_F(Copies, OfOneElementThatWasLeftOutAreTold) {
  const CUdeviceptr buffer = allocated(512);
  write_words(buffer, 127);
  EXPECT_EQ(findings_of_copy(buffer, 512).size(), 1u);
}

TEST_F(Copies, OfClearedMemoryAndOfWhatWasCopiedThereAreNot) {
  const CUdeviceptr buffer = allocated(256), other = allocated(256);
  EXPECT_EQ(call("cuMemsetD8_v2", buffer, static_cast<unsigned char>(0), std::size_t{256}), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemcpyDtoD_v2", other, buffer, std::size_t{256}), CUDA_SUCCESS);
  EXPECT_TRUE(findings_of_copy(buffer, 256).empty());
  EXPECT_TRUE(findings_of_copy(other, 256).empty());
}

// A copy on the device hands on what was never written.
TEST_F(Copies, OnTheDeviceAreNoUseByThemselves) {
  const CUdeviceptr buffer = allocated(64), other = allocated(64);
  EXPECT_EQ(call("cuMemcpyDtoD_v2", other, buffer, std::size_t{64}), CUDA_SUCCESS);
  EXPECT_EQ(findings_of_copy(other, 64).size(), 1u);
}

TEST_F(Copies, HolesOfStructsAreNoElements) {
  struct Row {
    int number;
    double value;  // 4 bytes are between the two
  };
  constexpr std::size_t rows = 20;
  const CUdeviceptr buffer = allocated(rows * sizeof(Row));
  for (std::size_t i = 0; i < rows; ++i) {
    const CUdeviceptr row = buffer + i * sizeof(Row);
    EXPECT_EQ(call("cuMemsetD8_v2", row, static_cast<unsigned char>(1), std::size_t{4}), CUDA_SUCCESS);
    EXPECT_EQ(call("cuMemsetD8_v2", row + 8, static_cast<unsigned char>(1), std::size_t{8}), CUDA_SUCCESS);
  }
  EXPECT_TRUE(findings_of_copy(buffer, rows * sizeof(Row)).empty());
  EXPECT_TRUE(findings_of_copy(buffer, sizeof(Row)).empty());
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
