// Every GPU of the table as a virtual device, through the driver's own functions. A process has one device: each check
// runs in a child, which says on stderr what is wrong and ends with 1.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "support/tree_for_test.hpp"
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
    library_ = dlopen(in_build("src/vgpu/libvgpu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
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
    expect(result == CUDA_SUCCESS, fmt::format("{} answers {}", name, static_cast<int>(result)));
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
  return fmt::format(".version 9.0\n.target {}\n.address_size 64\n", target);
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

struct Attribute {
  int which;
  double value;
  const char* name;
};

[[noreturn]] void check_attributes(const Gpu& gpu) {
  Child child(gpu);
  const Architecture a = *find_architecture(std::string(gpu.architecture));
  const Attribute all[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, double(a.compute_major), "major"},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, double(a.compute_minor), "minor"},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.sm_count.value, "SMs"},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, gpu.boost_clock_mhz.value * 1000, "clock"},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, gpu.memory_clock_mhz.value * 1000, "memory clock"},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, gpu.memory_bus_bits.value, "bus"},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu.l2_bytes.value, "L2"},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, double(a.shared_bytes_per_sm), "shared memory"},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, double(a.shared_bytes_per_cta_optin), "opt-in"},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 32.0 * a.max_warps_per_sm, "threads an SM"},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, double(a.max_ctas_per_sm), "CTAs an SM"},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647, "grid x"},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535, "grid y"},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024, "block x"},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64, "block z"},
      // The CUDA Programming Guide's ratios of FP32 to FP64 and, for B200, the Best Practices Guide's rates.
      {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, a.compute_minor == 0 && a.sm() != 120 ? 2.0 : 64.0,
       "FP32 to FP64"},
  };
  for (const Attribute& one : all) {
    int value = 0;
    child.must("cuDeviceGetAttribute", &value, one.which, 0);
    child.expect_equal(double(value), one.value, one.name);
  }
  char name[64] = "";
  child.must("cuDeviceGetName", name, 64, 0);
  child.expect_equal(std::string(name), std::string(gpu.name) + " (virtual)", "the name");
  std::size_t bytes = 0;
  child.must("cuDeviceTotalMem", &bytes, 0);
  child.expect_equal(double(bytes), gpu.memory_gb.value * (1 << 30), "the memory");
  child.done();
}

// PTX ISA, .target: code for an architecture runs on it and on all later ones, with the letter a on it alone, with f on
// it and on later ones of its family.
bool may_run(int target, char letter, int device) {
  if (letter == 'a') return target == device;
  if (letter == 'f') return target / 10 == device / 10 && target <= device;
  return target <= device;
}

[[noreturn]] void check_targets(const Gpu& gpu) {
  Child child(gpu);
  const int device = find_architecture(std::string(gpu.architecture))->sm();
  for (const int target : {50, 80, 86, 89, 90, 100, 103, 120, 121})
    for (const char letter : {' ', 'a', 'f'}) {
      if (letter != ' ' && target < (letter == 'a' ? 90 : 100)) continue;
      std::string name = "sm_" + std::to_string(target);
      if (letter != ' ') name += letter;
      std::string ptx = head(name);
      ptx += ".visible .entry k() { ret; }\n";
      CUmodule module = nullptr;
      child.expect_equal(int(child.call("cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str()))),
                         int(may_run(target, letter, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX), name);
      if (module == nullptr || target != device) continue;
      CUfunction kernel = nullptr;
      int registers = 0;
      child.must("cuModuleGetFunction", &kernel, module, "k");
      child.must("cuFuncGetAttribute", &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel);
      child.expect_equal(registers > 0, true, "that ptxas knows the registers of " + name);
    }
  child.done();
}

TEST(VirtualDevices, AnswerWhatTheTableSays) {
  for (const Gpu& gpu : all_gpus()) EXPECT_EXIT(check_attributes(gpu), ::testing::ExitedWithCode(0), "") << gpu.id;
}

TEST(VirtualDevices, RefusePtxThatIsNotForThem) {
  for (const Gpu& gpu : all_gpus()) EXPECT_EXIT(check_targets(gpu), ::testing::ExitedWithCode(0), "") << gpu.id;
}

TEST(VirtualDevices, ManyBarriersLimitTheReportLikeTheDriver) {
  for (const Gpu& gpu : all_gpus()) EXPECT_EXIT(check_many_barriers(gpu), ::testing::ExitedWithCode(0), "") << gpu.id;
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
