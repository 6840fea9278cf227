#include "vgpu/mutants/bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/toolkit.hpp"
#include "support/tree_for_test.hpp"
#include "vgpu/exec/handlers.hpp"
#include "vgpu/ir/lower.hpp"
#include "vgpu/memory/device_memory.hpp"
#include "vgpu/observe/watch.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

namespace fs = std::filesystem;

template <class T>
Result<std::uint64_t> place(memory::DeviceMemory& memory, const std::vector<T>& values, const char* what) {
  const auto bytes = std::max<std::size_t>(values.size() * sizeof(T), 4);
  auto address = memory.allocate(bytes, what);
  if (address && !values.empty())
    std::memcpy(reinterpret_cast<void*>(*address), values.data(), values.size() * sizeof(T));
  return address;
}

template <class T>
void fetch(std::uint64_t address, std::vector<T>& values) {
  if (!values.empty()) std::memcpy(values.data(), reinterpret_cast<const void*>(address), values.size() * sizeof(T));
}

}  // namespace

std::string text_of_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Result<std::string> compile(const std::string& text, const std::string& name) {
  const std::string nvcc = testing::toolkit_program("nvcc");
  if (nvcc.empty()) return Diagnostic{.message = "there is no nvcc", .fix = "install the CUDA toolkit"};
  std::string folder = fs::temp_directory_path() / "vgpu-corpus-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Diagnostic{.message = "no temporary folder"};
  std::ofstream(fs::path(folder) / (name + ".cu")) << text;
  const std::string command = fmt::format(
      "cd '{}' && '{}' -arch=sm_89 -std=c++17 -lineinfo --ptx {}.cu -o out.ptx >log 2>&1", folder, nvcc, name);
  const int status = std::system(command.c_str());
  std::string ptx = text_of_file(fs::path(folder) / "out.ptx");
  const std::string log = text_of_file(fs::path(folder) / "log");
  fs::remove_all(folder);
  if (status != 0 || ptx.empty())
    return Diagnostic{.message = "nvcc failed: " + log, .fix = "install the CUDA toolkit"};
  return ptx;
}

Result<std::string> kernel_source(const std::string& kernel) {
  std::string text = text_of_file(in_sources("tests/vgpu/kernels/" + kernel + ".cu"));
  if (text.empty()) return Diagnostic{.message = "no kernel " + kernel};
  return text;
}

std::string headers() {
  return "#include <cuda_fp16.h>\n";
}

std::string variant(const std::string& source, const std::string& kernel, const std::string& rename) {
  std::string out = fmt::format("namespace in_{} {{\n#line 1 \"{}.cu\"\n", rename, kernel);
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#include")) line.clear();
    const std::string head = "__global__ void ";
    if (const auto at = line.find(head + kernel + "("); at != std::string::npos) {
      line.replace(at + head.size(), kernel.size(), rename);
    }
    out += line + "\n";
  }
  return out + "}\n";
}

Result<std::unique_ptr<Program>> Program::load(const ptx::Module& module, const std::string& entry) {
  std::map<std::string, std::uint64_t, std::less<>> functions;
  ir::Surroundings surroundings;
  surroundings.handler = [](const ir::Form& form) { return exec::handler(form, exec::Mode::observed); };
  surroundings.address_of = [](std::string_view) { return std::uint64_t{0}; };
  surroundings.function_address = [&](std::string_view name) {
    return functions.try_emplace(std::string(name), 0x1000 + 16 * functions.size()).first->second;
  };
  surroundings.red_zones = true;
  auto kernel = ir::lower(module, entry, surroundings);
  if (!kernel) return kernel.error();
  std::unique_ptr<Program> program(new Program());
  program->kernel_ = std::move(*kernel);
  return program;
}

Program::~Program() = default;

Result<Seen> Program::run(const Case& how, const exec::Schedule& schedule) const {
  auto created = memory::DeviceMemory::create(64u << 20);
  if (!created) return created.error();
  const std::unique_ptr<memory::DeviceMemory> memory(*created);
  auto shadow = observe::GlobalShadow::create(*memory);
  if (!shadow) return shadow.error();

  Seen seen;
  seen.memory.in = input(how.in_count);
  seen.memory.out.resize(how.out_count);
  seen.memory.work.resize(64);
  const auto in = place(*memory, seen.memory.in, "cuMemAlloc in");
  const auto out = place(*memory, seen.memory.out, "cuMemAlloc out");
  const auto work = place(*memory, seen.memory.work, "cuMemAlloc work");
  if (!in || !out || !work) return Diagnostic{.message = "no device memory"};
  (*shadow)->mark_initialised(*in, how.in_count * 4);
  (*shadow)->mark_initialised(*work, 256);

  observe::WatchOptions options;
  options.global = shadow->get();
  options.machine.sms = 4;
  options.machine.l2_bytes = 1u << 20;
  observe::Watch watch(options);

  exec::Launch launch;
  launch.kernel = &kernel_;
  launch.grid = how.grid;
  launch.block = how.block;
  launch.dynamic_shared_bytes = how.dynamic_shared_bytes;
  launch.schedule = schedule;
  launch.observer = &watch;
  launch.sm_count = 4;
  launch.resident_ctas_per_sm = 4;
  launch.instruction_budget = 5'000'000;
  launch.parameters.resize(std::max<std::size_t>(kernel_.parameter_bytes, 28));
  const std::uint64_t pointers[] = {*in, *out, *work};
  std::memcpy(launch.parameters.data(), pointers, sizeof pointers);
  std::memcpy(launch.parameters.data() + 24, &how.n, sizeof how.n);

  const exec::Outcome outcome = exec::run(launch, *memory);
  seen.fault = outcome.fault;
  seen.warp_instructions = outcome.warp_instructions;
  seen.findings.assign(watch.log().findings().begin(), watch.log().findings().end());
  seen.counts = watch.counts();
  fetch(*out, seen.memory.out);
  fetch(*work, seen.memory.work);
  return seen;
}

std::string all_text(const std::vector<observe::Finding>& findings) {
  std::string text;
  for (const observe::Finding& finding : findings) text += finding.to_text() + "\n";
  return text;
}

std::vector<float> input(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + i / 13 + 3) % 13) - 6.0f;
  return values;
}

std::string wrong(const Case& how, const Seen& seen) {
  if (seen.fault.kind != exec::Fault::Kind::none) return "fault: " + seen.fault.message;
  Memory expected;
  expected.in = seen.memory.in;
  expected.out.resize(how.out_count);
  expected.work.resize(64);
  how.expected(expected);
  Memory got = seen.memory;
  if (how.any_order) {
    std::sort(expected.out.begin(), expected.out.end());
    std::sort(got.out.begin(), got.out.end());
  }
  for (std::size_t i = 0; i < how.out_count; ++i) {
    const float tolerance = 1e-4f * (1.0f + std::fabs(expected.out[i]));
    if (!(std::fabs(got.out[i] - expected.out[i]) <= tolerance)) {
      return fmt::format("out[{}] is {}, not {}", i, got.out[i], expected.out[i]);
    }
  }
  for (std::size_t i = 0; i < 64; ++i) {
    const bool is_float = how.name == "lookback" && i >= 32;
    if (!is_float && got.work[i] != expected.work[i]) {
      return fmt::format("work[{}] is {}, not {}", i, got.work[i], expected.work[i]);
    }
  }
  return "";
}

}  // namespace flashmoe::vgpu::corpus
