// Streams, events and captured graphs: what measuring on a device takes. As in device.hpp every object keeps its
// context alive and gives back what it took.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device.hpp"

namespace flashmoe::runtime {

// One that the default stream does not wait for.
class Stream {
 public:
  [[nodiscard]] static Result<Stream> create(std::shared_ptr<Context> context);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  [[nodiscard]] cuda::StreamHandle handle() const { return handle_; }
  [[nodiscard]] const std::shared_ptr<Context>& context() const { return context_; }
  [[nodiscard]] Result<Done> synchronize() const;

 private:
  Stream() = default;
  std::shared_ptr<Context> context_{};
  cuda::StreamHandle handle_ = nullptr;
};

class Event {
 public:
  [[nodiscard]] static Result<Event> create(std::shared_ptr<Context> context);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  [[nodiscard]] Result<Done> record(const Stream& stream);
  // Waits until what was recorded has happened.
  [[nodiscard]] Result<Done> synchronize() const;
  // The device's time between two events that have happened; about half a microsecond of resolution on a card.
  [[nodiscard]] static Result<double> seconds_between(const Event& begin, const Event& end);

 private:
  Event() = default;
  std::shared_ptr<Context> context_{};
  cuda::EventHandle handle_ = nullptr;
};

// Work put into a stream once and done as often as it is launched, without the host's time between the launches.
class Graph {
 public:
  // Captures what `work` puts into the stream. Nothing of it is done yet. Whatever `work` needs (modules loaded, memory
  // allocated, attributes set) is there before: a capture refuses it. An error of `work` ends the capture.
  [[nodiscard]] static Result<Graph> capture(const Stream& stream, const std::function<Result<Done>()>& work);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  // Its nodes go to the device before anybody waits for them.
  [[nodiscard]] Result<Done> upload(const Stream& stream) const;
  [[nodiscard]] Result<Done> launch(const Stream& stream) const;

 private:
  Graph() = default;
  std::shared_ptr<Context> context_{};
  cuda::GraphExecHandle handle_ = nullptr;
};

}  // namespace flashmoe::runtime
