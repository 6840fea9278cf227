// A device's context, and what lives in it. Every object keeps its context alive and gives back what it took.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/driver.hpp"

namespace flashmoe::runtime {

// The primary context of one device; made current for the calls of the objects below and given back afterwards, so that
// a caller's own context stays what it was.
class Context : public std::enable_shared_from_this<Context> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Context>> create(const std::shared_ptr<const Driver>& driver,
                                                               int ordinal = 0);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return *driver_; }
  [[nodiscard]] const std::string& device_name() const { return name_; }
  [[nodiscard]] Result<int> attribute(cuda::DeviceAttribute attribute) const;
  // "0000:01:00.0": the same card under another library's numbers, NVML's among them.
  [[nodiscard]] Result<std::string> pci_bus_id() const;
  // "GPU-6dcc5a8a-...", as nvidia-smi writes it.
  [[nodiscard]] Result<std::string> uuid() const;
  // Waits for everything; an error of a kernel that ran before comes out here.
  [[nodiscard]] Result<Done> synchronize();

  // Current while it lives.
  class Current {
   public:
    explicit Current(const Context& context);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Context& context_;
    bool pushed_ = false;
  };

 private:
  Context() = default;
  std::shared_ptr<const Driver> driver_{};
  cuda::DeviceHandle device_ = 0;
  cuda::ContextHandle handle_ = nullptr;
  std::string name_{};
};

class Buffer {
 public:
  [[nodiscard]] static Result<Buffer> create(std::shared_ptr<Context> context, std::size_t bytes);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] cuda::DeviceAddress address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Result<Done> write(std::span<const std::byte> from);
  [[nodiscard]] Result<Done> read(std::span<std::byte> to) const;

 private:
  Buffer() = default;
  std::shared_ptr<Context> context_{};
  cuda::DeviceAddress address_ = 0;
  std::size_t bytes_ = 0;
};

struct Geometry {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned dynamic_shared_bytes = 0;
};

class Module;

class Function {
 public:
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Result<int> attribute(cuda::FunctionAttribute attribute) const;
  // The bytes of each; nothing: the driver cannot tell.
  [[nodiscard]] std::optional<std::vector<std::size_t>> parameters() const;
  // As the driver counts: how many CTAs of such a launch an SM holds.
  [[nodiscard]] Result<int> ctas_per_sm(const Geometry& geometry) const;
  // More than 48 KB a CTA has to be asked for, once.
  [[nodiscard]] Result<Done> allow_dynamic_shared(unsigned bytes) const;
  // `parameters` point at the values, in the order of the kernel. More than 48 KB of dynamic shared memory is allowed
  // for by itself.
  [[nodiscard]] Result<Done> launch(const Geometry& geometry, std::span<void* const> parameters,
                                    cuda::StreamHandle stream = nullptr) const;

 private:
  friend class Module;
  std::shared_ptr<const Module> module_{};
  cuda::FunctionHandle handle_ = nullptr;
  std::string name_{};
  mutable unsigned allowed_shared_bytes_ = 0;  // asked for so far: once is enough
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  // `image` is PTX (ends in a zero byte), a cubin or a fatbin.
  [[nodiscard]] static Result<std::shared_ptr<Module>> load(std::shared_ptr<Context> context,
                                                            std::span<const std::byte> image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  [[nodiscard]] Result<Function> function(const std::string& name) const;

 private:
  friend class Function;
  Module() = default;
  std::shared_ptr<Context> context_{};
  cuda::ModuleHandle handle_ = nullptr;
};

}  // namespace flashmoe::runtime
