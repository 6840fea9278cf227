#include "runtime/device.hpp"

#include <algorithm>
#include <utility>

namespace flashmoe::runtime {

using cuda::FunctionAttribute;

Result<std::shared_ptr<Context>> Context::create(const std::shared_ptr<const Driver>& driver, int ordinal) {
  const auto& call = driver->call();
  std::shared_ptr<Context> context(new Context);
  context->driver_ = driver;
  if (auto got = driver->check(call.device_get(&context->device_, ordinal), "cuDeviceGet"); !got) return got.error();
  std::array<char, 256> name{};
  if (auto got = driver->check(call.device_name(name.data(), name.size(), context->device_), "cuDeviceGetName"); !got)
    return got.error();
  context->name_ = name.data();
  cuda::ContextHandle handle = nullptr;
  if (auto got = driver->check(call.primary_retain(&handle, context->device_), "cuDevicePrimaryCtxRetain"); !got)
    return got.error();
  context->handle_ = handle;
  return context;
}

Context::~Context() {
  if (handle_ != nullptr) driver_->call().primary_release(device_);
}

Context::Current::Current(const Context& context) : context_(context) {
  cuda::ContextHandle now = nullptr;
  const auto& call = context.driver_->call();
  if (call.context_current(&now) == cuda::success && now == context.handle_) return;
  pushed_ = call.context_push(context.handle_) == cuda::success;
}

Context::Current::~Current() {
  cuda::ContextHandle popped = nullptr;
  if (pushed_) context_.driver_->call().context_pop(&popped);
}

Result<int> Context::attribute(cuda::DeviceAttribute attribute) const {
  int value = 0;
  if (auto got = driver_->check(driver_->call().device_attribute(&value, attribute, device_), "cuDeviceGetAttribute");
      !got)
    return got.error();
  return value;
}

Result<std::string> Context::pci_bus_id() const {
  const auto measuring = driver_->measuring();
  if (!measuring) return measuring.error();
  std::array<char, 32> text{};
  if (auto got =
          driver_->check((*measuring)->device_pci_bus_id(text.data(), text.size(), device_), "cuDeviceGetPCIBusId");
      !got)
    return got.error();
  return std::string(text.data());
}

Result<std::string> Context::uuid() const {
  const auto measuring = driver_->measuring();
  if (!measuring) return measuring.error();
  cuda::Uuid uuid{};
  if (auto got = driver_->check((*measuring)->device_uuid(&uuid, device_), "cuDeviceGetUuid"); !got) return got.error();
  constexpr const char* digits = "0123456789abcdef";
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid.bytes[i] >> 4U];
    text += digits[uuid.bytes[i] & 15U];
  }
  return text;
}

Result<Done> Context::synchronize() {
  const Current current(*this);
  return driver_->check(driver_->call().context_synchronize(), "cuCtxSynchronize");
}

Result<Buffer> Buffer::create(std::shared_ptr<Context> context, std::size_t bytes) {
  const Context::Current current(*context);
  Buffer buffer;
  // A tensor without elements still has an address: the driver allocates no zero bytes.
  const auto& driver = context->driver();
  if (auto got = driver.check(driver.call().allocate(&buffer.address_, bytes == 0 ? 1 : bytes), "cuMemAlloc"); !got)
    return got.error();
  buffer.bytes_ = bytes;
  buffer.context_ = std::move(context);
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : context_(std::move(other.context_)), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (address_ == 0) return;
  const Context::Current current(*context_);
  context_->driver().call().free(address_);
}

Result<Done> Buffer::write(std::span<const std::byte> from) {
  if (from.empty()) return Done{};
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check(driver.call().copy_to_device(address_, from.data(), from.size()), "cuMemcpyHtoD");
}

Result<Done> Buffer::read(std::span<std::byte> to) const {
  if (to.empty()) return Done{};
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check(driver.call().copy_to_host(to.data(), address_, to.size()), "cuMemcpyDtoH");
}

Result<std::shared_ptr<Module>> Module::load(std::shared_ptr<Context> context, std::span<const std::byte> image) {
  const Context::Current current(*context);
  std::shared_ptr<Module> module(new Module);
  const auto& driver = context->driver();
  if (auto got = driver.check(driver.call().module_load(&module->handle_, image.data()), "cuModuleLoadData"); !got)
    return got.error();
  module->context_ = std::move(context);
  return module;
}

Module::~Module() {
  if (handle_ == nullptr || context_ == nullptr) return;
  const Context::Current current(*context_);
  context_->driver().call().module_unload(handle_);
}

Result<Function> Module::function(const std::string& name) const {
  const Context::Current current(*context_);
  Function found;
  const auto& driver = context_->driver();
  if (auto got =
          driver.check(driver.call().module_function(&found.handle_, handle_, name.c_str()), "cuModuleGetFunction");
      !got)
    return Diagnostic{.message = got.error().message + ": the image has no kernel '" + name + "'"};
  found.module_ = shared_from_this();
  found.name_ = name;
  return found;
}

Result<int> Function::attribute(FunctionAttribute attribute) const {
  const Context::Current current(*module_->context_);
  int value = 0;
  const auto& driver = module_->context_->driver();
  if (auto got = driver.check(driver.call().function_attribute(&value, attribute, handle_), "cuFuncGetAttribute"); !got)
    return got.error();
  return value;
}

std::optional<std::vector<std::size_t>> Function::parameters() const {
  const Context::Current current(*module_->context_);
  const auto& call = module_->context_->driver().call();
  if (call.function_parameter == nullptr) return std::nullopt;
  std::vector<std::size_t> all;
  std::size_t offset = 0, bytes = 0;
  while (call.function_parameter(handle_, all.size(), &offset, &bytes) == cuda::success) all.push_back(bytes);
  return all;
}

Result<int> Function::ctas_per_sm(const Geometry& geometry) const {
  const Context& context = *module_->context_;
  const Context::Current current(context);
  const auto threads = geometry.block[0] * geometry.block[1] * geometry.block[2];
  int ctas = 0;
  const cuda::Code code =
      context.driver().call().occupancy(&ctas, handle_, static_cast<int>(threads), geometry.dynamic_shared_bytes);
  if (auto asked = context.driver().check(code, "cuOccupancyMaxActiveBlocksPerMultiprocessor"); !asked)
    return asked.error();
  return ctas;
}

Result<Done> Function::allow_dynamic_shared(unsigned bytes) const {
  constexpr unsigned allowed_without_asking = 48 * 1024;
  if (bytes <= std::max(allowed_without_asking, allowed_shared_bytes_)) return Done{};
  const Context::Current current(*module_->context_);
  const auto& driver = module_->context_->driver();
  const auto code = driver.call().function_set_attribute(handle_, FunctionAttribute::max_dynamic_shared_bytes,
                                                         static_cast<int>(bytes));
  if (auto set = driver.check(code, "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)"); !set) return set;
  allowed_shared_bytes_ = bytes;
  return Done{};
}

Result<Done> Function::launch(const Geometry& geometry, std::span<void* const> parameters,
                              cuda::StreamHandle stream) const {
  if (auto allowed = allow_dynamic_shared(geometry.dynamic_shared_bytes); !allowed) return allowed;
  const Context::Current current(*module_->context_);
  const auto& driver = module_->context_->driver();
  const auto& call = driver.call();
  const auto& [grid, block, shared_bytes] = geometry;
  const auto code = call.launch(handle_, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, stream,
                                const_cast<void**>(parameters.data()), nullptr);
  return driver.check(code, "cuLaunchKernel");
}

}  // namespace flashmoe::runtime
