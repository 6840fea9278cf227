#include "workflow/runner/worker.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "cudadent/kernel.h"
#include "support/clock.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/runner/fault.hpp"
#include "workflow/runner/gpu_entry.hpp"
#include "workflow/runner/hardening.hpp"
#include "workflow/runner/launch_text.hpp"
#include "workflow/runner/layout.hpp"
#include "workflow/runner/mapping.hpp"

namespace flashmoe::workflow {
namespace {

int protocol_out = -1;

// How often a thread of this process gave its processor away by itself.
long own_waits() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw;
}

class Worker {
 public:
  explicit Worker(std::FILE* requests) : requests_(requests) { report_faults(protocol_out, &inputs_, &outputs_); }

  int serve() {
    std::string line;
    while (read_line(line)) {
      const Json request = parse_json(line);
      if (!request.is_object()) return 2;
      Json reply = answer(request);
      reply["n"] = request.value("n", Json());
      const std::string text = one_line(reply) + "\n";
      if (write(protocol_out, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return 2;
    }
    return 0;
  }

 private:
  bool read_line(std::string& line) {
    line.clear();
    for (int c = std::fgetc(requests_); c != EOF; c = std::fgetc(requests_)) {
      if (c == '\n') return true;
      line.push_back(static_cast<char>(c));
    }
    return false;
  }

  static Json refusal(const std::string& why) { return Json{{"ok", false}, {"error", why}}; }
  static Json refusal(const Diagnostic& why) { return Json{{"ok", false}, {"error", why.message}, {"fix", why.fix}}; }

  static Json no_memory(const std::string& why) {
    return Json{{"ok", false}, {"error", why}, {"out_of_memory", true}, {"fix", "free memory, or use less of it"}};
  }

  Json answer(const Json& request) {
    const std::string command = request.value("cmd", "");
    try {
      if (command == "load") return load(request);
      if (command == "load_gpu") return load_gpu(request);
      if (command == "bind") return bind(request);
      if (command == "run") return run(request);
      if (command == "count") return count(request);
    } catch (const Json::exception& error) {
      return refusal(std::string("bad request: ") + error.what());
    } catch (const std::bad_alloc&) {
      return no_memory("an allocation failed (std::bad_alloc)");
    } catch (const std::exception& error) {
      return refusal(std::string("threw an exception: ") + error.what());
    }
    return refusal("unknown request '" + command + "'");
  }

  Json load(const Json& request) {
    const std::string library = request.at("library");
    const auto hash = sha256_of_file(library);
    if (!hash) return refusal(hash.error().to_string());
    if (*hash != request.at("hash").get<std::string>()) {
      return refusal(fmt::format("{} is not what was built: SHA-256 is {}, built was {}", library, *hash,
                                 request.at("hash").get<std::string>()));
    }
    if (!request.value("trusted", false)) forbid_touching_others();
    // Also references: the kernel's worker must not read them.
    forbid_reading_my_memory();
    report_faults_in(library);
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return refusal(std::string("does not load: ") + dlerror());
    const std::string entry = request.at("entry");
    void* symbol = dlsym(handle, entry.c_str());
    if (!symbol) return refusal(fmt::format("has no function '{}'", entry));
    std::memcpy(&entry_, &symbol, sizeof entry_);
    return Json{{"ok", true}};
  }

  Json load_gpu(const Json& request) {
    std::vector<Image> images;
    for (const Json& image : request.at("images")) images.push_back({image.at("path"), image.at("hash")});
    auto loaded = GpuEntry::load(request.at("driver"), request.value("ordinal", 0), images);
    if (!loaded) return refusal(loaded.error());
    gpu_ = std::move(*loaded);
    return Json{{"ok", true}, {"version", gpu_->device()}, {"l2_bytes", gpu_->l2_bytes()}};
  }

  static bool map(Mapping& mapping, int fd, std::size_t bytes, bool writable) {
    mapping.reset();
    if (bytes == 0) return true;
    void* data = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return false;
    mapping.data = static_cast<std::byte*>(data);
    mapping.bytes = bytes;
    return true;
  }

  Json bind(const Json& request) {
    const auto sets = request.at("sets").get<std::size_t>();
    const auto input_bytes = request.at("input_bytes").get<std::size_t>();
    const auto output_bytes = request.at("output_bytes").get<std::size_t>();
    if (!map(inputs_, request.at("inputs_fd"), input_bytes * sets, false) ||
        !map(outputs_, request.at("outputs_fd"), output_bytes * sets, true)) {
      return refusal(std::string("cannot map the tensors: ") + std::strerror(errno));
    }
    names_.clear();
    params_.clear();
    calls_.clear();
    tensors_.clear();
    for (const auto& [name, value] : request.at("params").items()) {
      params_.push_back({names_.emplace_back(name).c_str(), value.get<double>()});
    }
    std::vector<cudadent_tensor> first;
    std::vector<std::size_t> step;
    std::vector<bool> is_input;
    for (const Json& tensor : request.at("tensors")) {
      const bool input = tensor.at("role") == "input";
      std::byte* region = input ? inputs_.data : outputs_.data;
      cudadent_tensor made{};
      made.name = names_.emplace_back(tensor.at("name").get<std::string>()).c_str();
      made.data = region && !tensor.value("absent", false) ? region + tensor.at("offset").get<std::size_t>() : nullptr;
      made.dtype = tensor.at("dtype");
      made.rank = static_cast<std::int32_t>(tensor.at("shape").size());
      for (std::size_t axis = 0; axis < tensor.at("shape").size() && axis < CUDADENT_MAX_RANK; ++axis) {
        made.shape[axis] = tensor.at("shape")[axis];
        made.stride[axis] = tensor.at("stride")[axis];
      }
      first.push_back(made);
      step.push_back(input ? input_bytes : output_bytes);
      is_input.push_back(input);
    }
    tensors_.resize(sets);
    for (std::size_t set = 0; set < sets; ++set) {
      tensors_[set] = first;
      for (std::size_t i = 0; i < first.size(); ++i) {
        if (first[i].data) tensors_[set][i].data = static_cast<std::byte*>(first[i].data) + set * step[i];
      }
      cudadent_call call{};
      call.struct_size = sizeof call;
      call.tensor_count = static_cast<std::int32_t>(first.size());
      call.param_count = static_cast<std::int32_t>(params_.size());
      call.threads = request.value("threads", 1);
      call.tensors = tensors_[set].data();
      call.params = params_.data();
      calls_.push_back(call);
    }
    if (gpu_ && !calls_.empty()) {
      const auto launches = launches_from(one_line(request.at("launches")));
      if (!launches) return refusal(launches.error());
      // A virtual GPU looks at every access itself, and would take the fence for memory of the tensor.
      const std::size_t behind = request.value("fenced", false) ? canary_bytes : 0;
      const auto bound = gpu_->bind(*launches, std::move(is_input), calls_.front(), behind);
      if (!bound) return refusal(bound.error());
    }
    return Json{{"ok", true}};
  }

  Json run(const Json& request) {
    if (!entry_ && !gpu_) return refusal("nothing is loaded");
    const auto first = request.at("first").get<std::size_t>();
    const auto count = request.at("count").get<std::size_t>();
    if (first + count > calls_.size()) return refusal("more sets than there are");
    const std::string variant = request.value("variant", "");
    for (std::size_t set = first; set < first + count; ++set) {
      calls_[set].variant = variant.empty() ? nullptr : variant.c_str();
    }
    if (gpu_ && request.contains("timing")) {
      const auto timing = timing_of(request.at("timing").get<std::string>());
      if (!timing) return refusal("no time is called so");
      const auto seconds = gpu_->time(std::span(calls_).subspan(first, count), *timing);
      if (!seconds) return refusal(seconds.error());
      return Json{{"ok", true}, {"card_seconds", *seconds}};
    }
    const long waits_before = own_waits();
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t set = first; set < first + count; ++set) {
      if (gpu_) {
        const auto ran = gpu_->run(calls_[set]);
        if (!ran) return refusal(ran.error());
        continue;
      }
      const int code = entry_(&calls_[set]);
      if (code != 0) {
        Json reply = code == ENOMEM ? no_memory(fmt::format("returned {} (ENOMEM)", code))
                                    : refusal(fmt::format("returned {}", code));
        reply["code"] = code;
        reply["set"] = set;
        return reply;
      }
    }
    return Json{{"ok", true}, {"seconds", seconds_since(start)}, {"waits", own_waits() - waits_before}};
  }

  Json count(const Json& request) {
    if (!gpu_ || calls_.empty()) return refusal("nothing is loaded that could be counted");
    const auto counted = gpu_->count(calls_.front(), request.at("metrics").get<std::vector<std::string>>(),
                                     request.at("cupti").get<std::string>());
    if (!counted) return refusal(counted.error());
    return Json{{"ok", true}, {"count", count_text(*counted)}};
  }

  std::FILE* requests_;
  cudadent_entry entry_ = nullptr;
  std::unique_ptr<GpuEntry> gpu_;
  Mapping inputs_;
  Mapping outputs_;
  std::deque<std::string> names_;  // addresses stay
  std::vector<cudadent_param> params_;
  std::vector<std::vector<cudadent_tensor>> tensors_;
  std::vector<cudadent_call> calls_;
};

}  // namespace

bool is_worker_call(int argc, char** argv) {
  return argc == 2 && std::strcmp(argv[1], "worker") == 0;
}

int worker_main() {
  // The protocol moves away from the standard streams: what a kernel prints goes to stderr and cannot be an answer.
  const int requests = fcntl(0, F_DUPFD_CLOEXEC, 200);
  protocol_out = fcntl(1, F_DUPFD_CLOEXEC, 200);
  const int nothing = open("/dev/null", O_RDONLY);
  if (requests < 0 || protocol_out < 0 || nothing < 0) return 2;
  dup2(nothing, 0);
  dup2(2, 1);
  std::FILE* stream = fdopen(requests, "r");
  if (!stream) return 2;
  const int code = Worker(stream).serve();
  // No destructors of foreign code.
  _exit(code);
}

}  // namespace flashmoe::workflow
