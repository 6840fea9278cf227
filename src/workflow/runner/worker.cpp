#include "workflow/runner/worker.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cudadent/kernel.h"
#include "support/clock.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/runner/gpu_entry.hpp"
#include "workflow/runner/hardening.hpp"
#include "workflow/runner/launch_text.hpp"

namespace flashmoe::workflow {
namespace {

struct Mapping {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }
  void reset() {
    if (data) munmap(data, bytes);
    data = nullptr;
    bytes = 0;
  }
};

int protocol_out = -1;
// For the fault handler, which may touch nothing else.
Mapping* inputs_for_fault = nullptr;
Mapping* outputs_for_fault = nullptr;

std::size_t put_text(char* at, const char* text) {
  const std::size_t length = std::strlen(text);
  std::memcpy(at, text, length);  // NOLINT(bugprone-not-null-terminated-result): a piece of a longer text
  return length;
}

std::size_t put_number(char* at, std::size_t value) {
  std::array<char, 24> digits{};
  std::size_t n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  for (std::size_t i = 0; i < n; ++i) at[i] = digits[n - 1 - i];
  return n;
}

// Says where the address lies, then lets the signal end the process the ordinary way.
void on_fault(int signal_number, siginfo_t* info, void* /*context*/) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  const char* region = "other";
  std::size_t offset = 0;
  const auto inside = [&](const Mapping* mapping, const char* name) {
    if (mapping && mapping->data && address >= mapping->data && address < mapping->data + mapping->bytes) {
      region = name;
      offset = static_cast<std::size_t>(address - mapping->data);
    }
  };
  inside(inputs_for_fault, "inputs");
  inside(outputs_for_fault, "outputs");
  std::array<char, 160> line{};
  std::size_t n = put_text(line.data(), R"({"fault":true,"signal":)");
  n += put_number(line.data() + n, static_cast<std::size_t>(signal_number));
  n += put_text(line.data() + n, R"(,"region":")");
  n += put_text(line.data() + n, region);
  n += put_text(line.data() + n, R"(","offset":)");
  n += put_number(line.data() + n, offset);
  n += put_text(line.data() + n, "}\n");
  const ssize_t ignored = write(protocol_out, line.data(), n);
  static_cast<void>(ignored);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void catch_faults() {
  static std::array<std::byte, 65536> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(number, &action, nullptr);
}

// How often a thread of this process gave its processor away by itself.
long own_waits() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw;
}

class Worker {
 public:
  explicit Worker(std::FILE* requests) : requests_(requests) {
    inputs_for_fault = &inputs_;
    outputs_for_fault = &outputs_;
  }

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

  Json answer(const Json& request) {
    const std::string command = request.value("cmd", "");
    try {
      if (command == "load") return load(request);
      if (command == "load_gpu") return load_gpu(request);
      if (command == "bind") return bind(request);
      if (command == "run") return run(request);
    } catch (const Json::exception& error) {
      return refusal(std::string("bad request: ") + error.what());
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
    return Json{{"ok", true}, {"version", gpu_->device()}};
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
      const auto bound = gpu_->bind(*launches, std::move(is_input), calls_.front());
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
        Json reply = refusal(fmt::format("returned {}", code));
        reply["code"] = code;
        reply["set"] = set;
        return reply;
      }
    }
    return Json{{"ok", true}, {"seconds", seconds_since(start)}, {"waits", own_waits() - waits_before}};
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
  catch_faults();
  const int code = Worker(stream).serve();
  // No destructors of foreign code.
  _exit(code);
}

}  // namespace flashmoe::workflow
