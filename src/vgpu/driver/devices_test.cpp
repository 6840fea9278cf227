// Every GPU of the table as a virtual device, through the driver's own functions. A process has one device: each check
// runs in a child, which says on stderr what is wrong and ends with 1.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "vgpu/driver/cuda_abi.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// The driver with one device, in this process, which must be a child.
class Child {
 public:
  explicit Child(const Gpu& gpu) {
    setenv("VGPU_DEVICE", std::string(gpu.id).c_str(), 1);
    setenv("VGPU_REPORT", report_.c_str(), 1);
    setenv("VGPU_CHECK", "none", 1);
    library_ = dlopen(VGPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    expect(library_ != nullptr, "the driver does not load");
    must("cuInit", 0U);
    must("cuDevicePrimaryCtxRetain", &context_, 0);
    must("cuCtxSetCurrent", context_);
  }
  [[noreturn]] void done() const {
    std::filesystem::remove(report_);
    std::_Exit(failed_ ? 1 : 0);
  }

  template <class... A>
  CUresult call(const char* name, A... arguments) const {
    void* function = nullptr;
    const auto find = reinterpret_cast<int (*)(const char*, void**, int, std::uint64_t, int*)>(
        dlsym(library_, "cuGetProcAddress_v2"));
    expect(find(name, &function, 13000, 0, nullptr) == 0, name);
    return reinterpret_cast<CUresult (*)(A...)>(function)(arguments...);
  }
  template <class... A>
  void must(const char* name, A... arguments) const {
    const CUresult result = call(name, arguments...);
    expect(result == CUDA_SUCCESS, std::string(name) + " answers " + std::to_string(result));
  }
  void expect(bool holds, const std::string& what) const {
    if (holds) return;
    std::cerr << what << '\n';
    std::_Exit(1);
  }
  template <class A, class B>
  void expect_equal(const A& found, const B& wanted, const std::string& what) {
    if (found == wanted) return;
    failed_ = true;
    std::cerr << what << " is " << found << ", not " << wanted << '\n';
  }

  void synchronize() const { must("cuCtxSynchronize", context_); }
  CUfunction function(const std::string& ptx, const char* name) const {
    CUmodule module = nullptr;
    must("cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str()));
    CUfunction found = nullptr;
    must("cuModuleGetFunction", &found, module, name);
    return found;
  }
  [[nodiscard]] nlohmann::json last_report() const {
    std::ifstream file(report_);
    std::string line, last;
    while (std::getline(file, line)) last = line;
    return nlohmann::json::parse(last);
  }

 private:
  std::string report_ =
      (std::filesystem::temp_directory_path() / ("vgpu-devices-" + std::to_string(getpid()))).string();
  void* library_ = nullptr;
  CUcontext context_ = nullptr;
  bool failed_ = false;
};

std::string head(std::string_view target) {
  return ".version 9.0\n.target " + std::string(target) + "\n.address_size 64\n";
}

// All 16 barriers of a CTA: from 9.0 on an SM has only so many of them.
[[noreturn]] void check_many_barriers(const Gpu& gpu) {
  Child child(gpu);
  std::string ptx = head("sm_80") + ".visible .entry k() {\n";
  for (int barrier = 0; barrier < 16; ++barrier) ptx += "bar.sync " + std::to_string(barrier) + ";\n";
  const CUfunction kernel = child.function(ptx + "ret;\n}\n", "k");
  constexpr int threads = 32;
  int asked = 0;
  child.must("cuOccupancyMaxActiveBlocksPerMultiprocessor", &asked, kernel, threads, std::size_t{0});
  child.must("cuLaunchKernel", kernel, 1U, 1U, 1U, unsigned{threads}, 1U, 1U, 0U, CUstream{},
             static_cast<void**>(nullptr), static_cast<void**>(nullptr));
  child.synchronize();
  const nlohmann::json report = child.last_report();
  int registers = 0;
  child.must("cuFuncGetAttribute", &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel);
  const Occupancy wanted = occupancy(*find_architecture(std::string(gpu.architecture)),
                                     {.registers = registers, .threads = threads, .barriers = 16});
  child.expect(registers > 0, "no ptxas: a toolkit is needed here");
  child.expect_equal(asked, wanted.ctas_per_sm, "CTAs per SM of the driver");
  child.expect_equal(report.at("ctas_per_sm").get<int>(), wanted.ctas_per_sm, "CTAs per SM of the report");
  child.done();
}

TEST(VirtualDevices, ManyBarriersLimitTheReportLikeTheDriver) {
  for (const Gpu& gpu : all_gpus()) EXPECT_EXIT(check_many_barriers(gpu), ::testing::ExitedWithCode(0), "") << gpu.id;
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
