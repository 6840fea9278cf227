#include "cuda/gpu_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace flashmoe::testing {
Gpu::Gpu(const GpuOptions& options)
    : report_path_(
          (std::filesystem::temp_directory_path() / ("flashmoe-gpu-" + std::to_string(getpid()) + ".jsonl")).string()) {
  setenv("VGPU_DEVICE", options.device, 0);
  setenv("VGPU_CHECK", options.checks, 0);
  setenv("VGPU_LOG", "off", 0);
  setenv("VGPU_REPORT", report_path_.c_str(), 1);
  driver_ = must(runtime::Driver::open(runtime::system_driver_library()));
  device_ = must(runtime::Context::create(driver_));
  current_ = std::make_unique<runtime::Context::Current>(*device_);
  fms_context_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.device_kind = FMS_DEVICE_CUDA;
  fms_context* made = nullptr;
  fms_error error{};
  if (fms_context_create(&wanted, &made, &error) != FMS_OK) throw std::runtime_error(to_string(error));
  context_.reset(made);
}

Gpu::~Gpu() {
  std::error_code ignored;
  std::filesystem::remove(report_path_, ignored);
}

RunResult run_on_gpu(const std::shared_ptr<runtime::Context>& device, const fms_context* context, AttentionCase& one,
                     const fms_plan_options* options) {
  RunResult result;
  result.status = fms_attention_plan_make(context, &one.problem(), options, &result.plan, &result.error);
  if (result.status != FMS_OK) return result;
  const DeviceCase there(device, one);
  fms_attention_args args = there.args();
  args.info = &result.info;
  const std::size_t bytes = result.plan.workspace_bytes;
  runtime::Buffer workspace = must(runtime::Buffer::create(device, std::max<std::size_t>(bytes, 1)));
  must(workspace.write(std::vector<std::byte>(workspace.bytes(), std::byte{0xff})));
  void* const memory = bytes == 0 ? nullptr : reinterpret_cast<void*>(workspace.address());
  result.status = fms_attention_run(context, &result.plan, &args, memory, bytes, nullptr, &result.error);
  if (result.status != FMS_OK) return result;
  if (auto done = device->synchronize(); !done) {
    result.status = FMS_DEVICE_ERROR;
    result.error.code = FMS_DEVICE_ERROR;
    std::snprintf(result.error.message, sizeof result.error.message, "%s", done.error().to_string().c_str());
    return result;
  }
  there.copy_back(one);
  return result;
}

std::vector<std::string> Gpu::reports() const {
  std::ifstream file(report_path_);
  file.seekg(report_read_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    report_read_ += static_cast<long>(line.size()) + 1;
    lines.push_back(line);
  }
  return lines;
}

double metric(const nlohmann::json& report, const std::string& name) {
  for (const auto& one : report.at("metrics"))
    if (one.at("name") == name) return one.at("value").get<double>();
  return 0;
}

std::vector<std::string> Gpu::findings() const {
  std::vector<std::string> found;
  for (const std::string& line : reports()) {
    const auto report = nlohmann::json::parse(line);
    if (!report.at("findings").empty()) found.push_back(report.at("findings").dump());
  }
  return found;
}

DeviceCase::DeviceCase(const std::shared_ptr<runtime::Context>& device, const AttentionCase& one) : args_(one.args()) {
  for (const std::span<uint8_t> host : one.buffers()) {
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(host.data()) % 16;
    std::vector<std::byte> bytes(begin + std::max<std::size_t>(host.size(), 1), std::byte{0xff});
    std::ranges::copy(std::as_bytes(host), bytes.begin() + static_cast<std::ptrdiff_t>(begin));
    pieces_.push_back({must(runtime::Buffer::create(device, bytes.size())), begin});
    must(pieces_.back().buffer.write(bytes));
    const auto address = static_cast<std::uintptr_t>(pieces_.back().buffer.address()) + begin;
    const auto replace = [&](auto*& pointer) {
      if (static_cast<const void*>(pointer) == host.data()) {
        pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(address);
      }
    };
    replace(args_.q);
    replace(args_.k);
    replace(args_.v);
    replace(args_.o);
    replace(args_.lse);
    replace(args_.bias);
    replace(args_.bias2);
    replace(args_.sinks);
    replace(args_.cu_q);
    replace(args_.cu_kv);
    replace(args_.kv_lengths);
    replace(args_.block_table);
  }
}

void DeviceCase::copy_back(AttentionCase& one) const {
  const auto hosts = one.buffers();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<std::byte> bytes(pieces_[i].buffer.bytes());
    must(pieces_[i].buffer.read(bytes));
    std::ranges::copy(std::span(bytes).subspan(pieces_[i].begin, hosts[i].size()),
                      std::as_writable_bytes(hosts[i]).begin());
  }
}

void DeviceCase::copy_outputs_to_device(const AttentionCase& one) {
  const auto hosts = one.buffers();
  for (const std::size_t output : {AttentionCase::kOutputBuffer, AttentionCase::kLseBuffer}) {
    std::vector<std::byte> bytes(pieces_[output].buffer.bytes(), std::byte{0xff});
    std::ranges::copy(std::as_bytes(hosts[output]), bytes.begin() + static_cast<std::ptrdiff_t>(pieces_[output].begin));
    must(pieces_[output].buffer.write(bytes));
  }
}

}  // namespace flashmoe::testing
