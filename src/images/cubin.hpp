// What a cubin says about its kernels: names, registers, shared memory, stack and spills, as the driver will read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe {

struct CubinKernel {
  std::string name{};       // as in the symbol table
  std::string demangled{};  // "void softmax_kernel<float, 256>(float const*, float*, int)"
  int registers = 0;        // per thread
  int barriers = 0;
  int max_threads = 0;  // __launch_bounds__; 0: none
  std::int64_t static_shared_bytes = 0;
  std::int64_t frame_bytes = 0;  // local memory per thread: spilled registers and local arrays
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  std::int64_t code_bytes = 0;
};

struct Cubin {
  int sm = 0;  // 89
  std::vector<CubinKernel> kernels{};
  std::vector<std::string> functions{};  // device functions it defines, for separate compilation
  std::vector<std::string> undefined{};  // and those it leaves to the linker
};

[[nodiscard]] Result<Cubin> read_cubin(std::span<const std::byte> bytes);

}  // namespace flashmoe
