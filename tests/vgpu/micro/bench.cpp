#include "vgpu/micro/bench.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/state.hpp"
#include "vgpu/ir/lower.hpp"
#include "vgpu/micro/compare.hpp"
#include "vgpu/oracle/run.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::micro {

namespace {

constexpr std::uint64_t buffer_bytes = 1 << 20;

std::uint64_t allocate(memory::DeviceMemory& memory, const char* what) {
  const auto address = memory.allocate(buffer_bytes, what);
  if (!address) throw std::runtime_error(address.error().to_string());
  return *address;
}

}  // namespace

std::string describe(const MicroKernel& kernel) {
  return kernel.form + "\n" + kernel.text;
}

Bench::Bench() {
  auto created = memory::DeviceMemory::create(64 << 20);
  if (!created) throw std::runtime_error(created.error().to_string());
  memory_.reset(*created);
  input_ = allocate(*memory_, "inputs");
  output_ = allocate(*memory_, "results");
  table_ = allocate(*memory_, "table");
}

Bench::~Bench() = default;

std::vector<std::uint8_t> Bench::parameters(const MicroKernel& kernel) const {
  std::vector<std::uint8_t> bytes(16);
  std::memcpy(bytes.data(), &input_, 8);
  std::memcpy(bytes.data() + 8, &output_, 8);
  if (!kernel.block.empty()) {
    constexpr std::size_t aligned = 64;  // where the block of parameters begins
    bytes.resize(aligned + kernel.block.size());
    std::copy(kernel.block.begin(), kernel.block.end(), bytes.begin() + aligned);
  }
  return bytes;
}

Bench::Run Bench::on_virtual_gpu(const MicroKernel& kernel, const ptx::Module& module) {
  ir::Surroundings surroundings;
  surroundings.handler = [](const ir::Form& form) { return exec::handler(form, exec::Mode::fast); };
  surroundings.address_of = [&](std::string_view name) { return name == "table" ? table_ : 0; };
  surroundings.function_address = [&](std::string_view name) {
    return std::hash<std::string_view>{}(name) | std::uint64_t{1} << 40;
  };
  const auto lowered = ir::lower(module, "k", surroundings);
  if (!lowered) return {"lowering: " + lowered.error().to_string(), {}};
  const std::uint64_t output_bytes = std::uint64_t{kernel.threads} * kernel.output_stride;
  std::copy(kernel.input.begin(), kernel.input.end(), reinterpret_cast<std::uint8_t*>(input_));
  std::memset(reinterpret_cast<void*>(output_), 0, output_bytes);
  std::copy(kernel.constants.begin(), kernel.constants.end(), reinterpret_cast<std::uint8_t*>(table_));
  exec::Launch launch;
  launch.kernel = &*lowered;
  launch.block.x = kernel.threads;
  launch.parameters = parameters(kernel);
  launch.instruction_budget = 1'000'000;
  launch.host_threads = 1;
  const exec::Outcome outcome = exec::run(launch, *memory_);
  if (outcome.fault.kind != exec::Fault::Kind::none) return {"fault: " + outcome.fault.message, {}};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(output_);
  return {"", {bytes, bytes + output_bytes}};
}

Bench::Run Bench::on_oracle(const MicroKernel& kernel, const ptx::Module& module, bool magnitudes) {
  oracle::GlobalMemory memory;
  memory.ranges[input_] = kernel.input;
  memory.ranges[output_].assign(std::size_t{kernel.threads} * kernel.output_stride, 0);
  oracle::LaunchDescription launch;
  launch.entry = "k";
  launch.block.x = kernel.threads;
  launch.parameters = parameters(kernel);
  launch.mma_gives_magnitude = magnitudes;
  Run result;
  result.problem = oracle::run(module, launch, memory);
  result.output = memory.ranges[output_];
  return result;
}

std::string Bench::fault(const MicroKernel& kernel) {
  const auto module = ptx::parse(kernel.text, kernel.form);
  return module ? on_virtual_gpu(kernel, *module).problem : "parser: " + module.error().to_string();
}

std::string Bench::judge(const MicroKernel& kernel) {
  const auto module = ptx::parse(kernel.text, kernel.form);
  if (!module) return "parser: " + module.error().to_string();
  const Run expected = on_oracle(kernel, *module, false);
  if (!expected.problem.empty()) return expected.problem;
  const Run got = on_virtual_gpu(kernel, *module);
  if (!got.problem.empty()) return got.problem;
  Comparison comparison{kernel, got.output, expected.output, {}};
  const bool sums = std::any_of(kernel.fields.begin(), kernel.fields.end(),
                                [](const Field& f) { return f.tolerance.kind == Tolerance::Kind::sum; });
  if (sums) comparison.magnitudes = on_oracle(kernel, *module, true).output;
  return compare(comparison);
}

}  // namespace flashmoe::vgpu::micro
