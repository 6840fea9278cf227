// What the driver keeps: contexts and everything in them. One lock guards all of it, and a launch runs under it: work
// is done when it is asked for (streams are in order trivially), and what a stream adds is its place on the virtual
// clock.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "vgpu/driver/cuda_abi.hpp"
#include "vgpu/driver/implementations.hpp"
#include "vgpu/driver/machine.hpp"
#include "vgpu/exec/heap.hpp"

namespace flashmoe::vgpu::driver {

struct Context;
struct Graph;
struct Module;

// CUstreamCaptureMode
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

struct Stream {
  Context* context = nullptr;
  bool is_legacy = false;   // the default stream: waits for all blocking streams, and they for it
  bool is_blocking = true;  // not CU_STREAM_NON_BLOCKING
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  double ready_ns = 0;               // when what was put into it is done, on the virtual clock
  std::shared_ptr<Graph> capture{};  // null: work is done at once
  bool makes_node = false;           // the capture is that of one node, for whoever adds it to a graph
  const void* last_captured{};       // the node that the next one waits for
  CUgraph captured{};                // handed out while it is captured; its nodes come with the end
  bool is_capture_broken = false;    // something was asked that no graph can hold
  CaptureMode capture_mode = CaptureMode::global;
  std::thread::id capture_thread{};  // that began it
};

struct Event {
  Context* context = nullptr;
  bool has_timing = true;
  bool is_recorded = false;
  bool is_captured = false;  // last recorded inside a capture: it is a place in a graph, and has no time
  double at_ns = 0;
};

struct MemoryPool {
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0, used_high = 0;
  std::map<int, std::uint64_t> flags{};  // the other attributes, as set
  bool is_default = false;
  int location_type = 0;
};

// What an allocation is, beside what DeviceMemory knows.
struct Owned {
  enum class Kind { device, managed, host, pooled } kind = Kind::device;
  Context* context = nullptr;
  MemoryPool* pool = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
};

// Of the host (registered.hpp).
struct Registered {
  std::size_t bytes = 0;
  CUdeviceptr mirror = 0;  // 0: nobody asked
};

// A CUarray: rows one behind the other in memory that nobody else knows the address of.
struct Array {
  Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR described{};  // a height or depth of 0: it has none
  CUdeviceptr address = 0;
  std::size_t row_bytes = 0;
  [[nodiscard]] std::size_t rows() const { return described.Height == 0 ? 1 : described.Height; }
  [[nodiscard]] std::size_t slices() const { return described.Depth == 0 ? 1 : described.Depth; }
};

// Objects behind handles; a handle that is none of them is an error to the caller, not a crash.
template <class T>
class Handles {
 public:
  T* add(std::unique_ptr<T> object) {
    T* const handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  [[nodiscard]] T* find(const void* handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }
  bool remove(const void* handle) { return take(handle) != nullptr; }
  // Nobody's any more; nullptr: it was none.
  std::unique_ptr<T> take(const void* handle) {
    const auto taken = objects_.extract(handle);
    return taken.empty() ? nullptr : std::move(taken.mapped());
  }
  void remove_if(const std::function<bool(const T&)>& doomed) {
    std::erase_if(objects_, [&](const auto& entry) { return doomed(*entry.second); });
  }
  [[nodiscard]] auto begin() const { return objects_.begin(); }
  [[nodiscard]] auto end() const { return objects_.end(); }

 private:
  std::map<const void*, std::unique_ptr<T>> objects_{};
};

struct Context {
  std::uint64_t id = 0;
  CUdevice device = 0;
  unsigned flags = 0;
  bool is_primary = false;
  int references = 0;   // cuDevicePrimaryCtxRetain
  int attachments = 1;  // cuCtxCreate and cuCtxAttach
  // After a fault every call returns it until the context is gone, as on a device.
  CUresult sticky = CUDA_SUCCESS;
  Stream legacy{};
  std::map<std::thread::id, Stream> per_thread{};
  std::map<int, std::size_t> limits{};
  std::set<int> limits_in_use{};  // a kernel that depends on them was launched: they are what they are
  std::unique_ptr<exec::Heap> heap{};
};

// What a program lends to graphs: ends with its last reference, the program's own or a graph's.
class UserObject {
 public:
  UserObject(void* value, CUhostFn destroy) : value_(value), destroy_(destroy) {}
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
  ~UserObject() { destroy_(value_); }

 private:
  void* value_;
  CUhostFn destroy_;
};
struct HeldObject {
  std::shared_ptr<UserObject> object{};
  unsigned references = 0;
};
using HeldObjects = std::map<const void*, HeldObject>;  // by their handles, which are their addresses

struct Link;
struct Library;

struct State {
  State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();
  std::recursive_mutex mutex{};  // a stream callback may call the API
  Machine* machine = nullptr;    // set by cuInit
  std::uint64_t next_id = 1;
  std::uint64_t next_allocation = 1;       // as the program counts them: findings name it
  std::atomic<std::uint64_t> timer_ns{0};  // the latest time that any kernel read from %globaltimer
  Handles<Context> contexts{};
  struct Primary {
    Context* context = nullptr;
    unsigned flags = 0;
  };
  std::vector<Primary> primaries{};  // one a device; set by cuInit
  Handles<Stream> streams{};
  Handles<Event> events{};
  Handles<Array> arrays{};
  HeldObjects user_objects{};  // those that the program itself holds
  Handles<MemoryPool> pools{};
  MemoryPool* default_pool = nullptr;
  MemoryPool* current_pool = nullptr;
  // Their types are complete where State's constructor is.
  Handles<Module> modules;
  Handles<Library> libraries;
  Handles<Link> links;
  Handles<Graph> graphs;
  Handles<Graph> graph_execs;
  std::map<std::uint64_t, Owned> allocations{};    // by address
  std::map<const void*, Registered> registered{};  // host memory, by address

  // The stream behind a handle (0 and the two special values included); nullptr: no such stream.
  [[nodiscard]] Stream* stream(CUstream handle, Context& context);
  // When work put into `stream` now can begin.
  [[nodiscard]] double start_ns(const Stream& stream) const;
  [[nodiscard]] bool has(CUdevice device) const {
    return device >= 0 && static_cast<std::size_t>(device) < primaries.size();
  }
  // CUDA Driver API, cuThreadExchangeStreamCaptureMode: what may wait for other streams, allocating and loading among
  // it, is refused while somebody captures whom it would disturb, and spoils that capture.
  [[nodiscard]] CUresult refuse_while_capturing();
  // All streams of all contexts.
  void for_each_stream(const std::function<void(Stream&)>& body);
  // Forgets everything that belongs to the context and frees its memory.
  void empty(Context& context);
};

State& state();

// The calling thread's contexts, the current one last.
std::vector<Context*>& context_stack();
[[nodiscard]] Context* current_context();

// The calling thread's, as cuThreadExchangeStreamCaptureMode left it.
CaptureMode& thread_capture_mode();

// Frames of every API function: lock, log the call, refuse what comes too early or after a fault, and keep exceptions
// on this side of the C ABI.
CUresult with_driver(const char* function, const std::function<CUresult(State&)>& body);
CUresult with_context(const char* function, const std::function<CUresult(State&, Context&)>& body);

template <class Handle, class T>
Handle handle_of(T* object) {
  return reinterpret_cast<Handle>(object);
}

}  // namespace flashmoe::vgpu::driver
