#include "runtime/timing.hpp"

#include <utility>

namespace flashmoe::runtime {

Result<Stream> Stream::create(std::shared_ptr<Context> context) {
  const Context::Current current(*context);
  const auto& driver = context->driver();
  Stream stream;
  const auto code = driver.call().stream_create(&stream.handle_, cuda::stream_non_blocking);
  if (auto made = driver.check(code, "cuStreamCreate"); !made) return made.error();
  stream.context_ = std::move(context);
  return stream;
}

Stream::Stream(Stream&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  if (handle_ == nullptr) return;
  const Context::Current current(*context_);
  context_->driver().call().stream_destroy(handle_);
}

Result<Done> Stream::synchronize() const {
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check(driver.call().stream_synchronize(handle_), "cuStreamSynchronize");
}

Result<Event> Event::create(std::shared_ptr<Context> context) {
  const auto& driver = context->driver();
  const auto measuring = driver.measuring();
  if (!measuring) return measuring.error();
  const Context::Current current(*context);
  Event event;
  if (auto made = driver.check((*measuring)->event_create(&event.handle_, 0), "cuEventCreate"); !made)
    return made.error();
  event.context_ = std::move(context);
  return event;
}

Event::Event(Event&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ == nullptr) return;
  const Context::Current current(*context_);
  (*context_->driver().measuring())->event_destroy(handle_);
}

Result<Done> Event::record(const Stream& stream) {
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check((*driver.measuring())->event_record(handle_, stream.handle()), "cuEventRecord");
}

Result<Done> Event::synchronize() const {
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check((*driver.measuring())->event_synchronize(handle_), "cuEventSynchronize");
}

Result<double> Event::seconds_between(const Event& begin, const Event& end) {
  const Context::Current current(*begin.context_);
  const auto& driver = begin.context_->driver();
  float milliseconds = 0;
  const auto code = (*driver.measuring())->event_elapsed(&milliseconds, begin.handle_, end.handle_);
  if (auto got = driver.check(code, "cuEventElapsedTime"); !got) return got.error();
  return static_cast<double>(milliseconds) * 1e-3;
}

Result<Graph> Graph::capture(const Stream& stream, const std::function<Result<Done>()>& work) {
  const auto& context = stream.context();
  const auto& driver = context->driver();
  const auto measuring = driver.measuring();
  if (!measuring) return measuring.error();
  const cuda::MeasuringFunctions& call = **measuring;
  const Context::Current current(*context);
  // Thread-local: other threads of the process may go on allocating and loading meanwhile.
  if (auto begun =
          driver.check(call.capture_begin(stream.handle(), cuda::CaptureMode::thread_local_), "cuStreamBeginCapture");
      !begun)
    return begun.error();
  const auto done = work();
  cuda::GraphHandle captured = nullptr;
  // Ended in any case: a stream that goes on capturing is of no use to anybody.
  const auto ended = driver.check(call.capture_end(stream.handle(), &captured), "cuStreamEndCapture");
  if (!done || !ended) {
    if (captured != nullptr) call.graph_destroy(captured);
    return done ? ended.error() : done.error();
  }
  Graph graph;
  const auto made = driver.check(call.graph_instantiate(&graph.handle_, captured, 0), "cuGraphInstantiate");
  call.graph_destroy(captured);
  if (!made) return made.error();
  graph.context_ = context;
  return graph;
}

Graph::Graph(Graph&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::~Graph() {
  if (handle_ == nullptr) return;
  const Context::Current current(*context_);
  (*context_->driver().measuring())->graph_exec_destroy(handle_);
}

Result<Done> Graph::upload(const Stream& stream) const {
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check((*driver.measuring())->graph_upload(handle_, stream.handle()), "cuGraphUpload");
}

Result<Done> Graph::launch(const Stream& stream) const {
  const Context::Current current(*context_);
  const auto& driver = context_->driver();
  return driver.check((*driver.measuring())->graph_launch(handle_, stream.handle()), "cuGraphLaunch");
}

}  // namespace flashmoe::runtime
