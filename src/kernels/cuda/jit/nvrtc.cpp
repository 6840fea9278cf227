#include "kernels/cuda/jit/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace flashmoe::cuda {
namespace {

constexpr int oldest_major = 12;  // the first that knows C++20

constexpr const char* remedy =
    "install NVRTC 12.0 or newer (the package nvidia-cuda-nvrtc or a CUDA toolkit), or name the file with "
    "FLASHMOE_NVRTC, or use head sizes, biases and pages whose kernels are shipped (docs/kernels.md)";

std::vector<std::string> candidates() {
  const char* forced = std::getenv("FLASHMOE_NVRTC");
  std::vector<std::string> names;
  if (forced != nullptr && *forced != '\0') {
    for (std::string_view rest = forced; !rest.empty();) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      if (colon > 0) names.emplace_back(rest.substr(0, colon));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return names;
  }
  for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      names.push_back(std::string(folder) + name);
  }
  return names;
}

// "attention/forward.cuh(35): error: ..." as NVRTC's log has it.
Diagnostic first_error(std::string_view log) {
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string_view line = log.substr(at, end - at);
    at = end + 1;
    const std::size_t error = line.find("error");
    if (error == std::string_view::npos) continue;
    Diagnostic found{.message = std::string(line)};
    const std::size_t open = line.find('('), close = line.find("): ");
    if (open != std::string_view::npos && close != std::string_view::npos && open < close && close < error) {
      const auto [rest, failed] = std::from_chars(line.data() + open + 1, line.data() + close, found.line);
      if (failed == std::errc() && rest == line.data() + close) {
        found.file = line.substr(0, open);
        found.message = line.substr(close + 3);
      }
    }
    return found;
  }
  return {.message = std::string(log)};
}

}  // namespace

Result<Nvrtc> Nvrtc::open(int driver) {
  std::string looked_for, last;
  std::optional<Result<Nvrtc>> first;
  for (const std::string& name : candidates()) {
    looked_for += (looked_for.empty() ? "" : ", ") + name;
    last = name;
    // Never closed: compilers leave threads and exit handlers behind. A second open finds the same one.
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    auto nvrtc = use(handle, name);
    if (nvrtc && nvrtc->fits(driver)) return nvrtc;
    if (!first || (!*first && nvrtc)) first = std::move(nvrtc);
  }
  if (first) return *std::move(first);
  // Of several files the last one's reason says nothing about the others.
  const char* why = looked_for == last ? dlerror() : nullptr;
  return Diagnostic{.message = "this kernel has to be compiled, but NVRTC does not load; looked for: " + looked_for +
                               (why != nullptr ? std::string(" (") + why + ")" : ""),
                    .fix = remedy};
}

Result<Nvrtc> Nvrtc::use(void* handle, const std::string& library) {
  Nvrtc nvrtc;
  nvrtc.library_ = library;
  if (auto found = nvrtc.find_functions(handle); !found) return found.error();
  if (auto known = nvrtc.check(nvrtc.call_.version(&nvrtc.major_, &nvrtc.minor_), "nvrtcVersion"); !known)
    return known.error();
  if (nvrtc.major_ < oldest_major) {
    return Diagnostic{.message = nvrtc.library_ + " is NVRTC " + nvrtc.version() + ", too old for C++20",
                      .fix = remedy};
  }
  return nvrtc;
}

bool Nvrtc::fits(int driver) const {
  return major_ <= driver / 1000;
}

Result<Done> Nvrtc::find_functions(void* handle) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* symbol = dlsym(handle, name);
    if (symbol == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find("nvrtcGetErrorString", call_.error_text);
  find("nvrtcVersion", call_.version);
  find("nvrtcGetNumSupportedArchs", call_.architecture_count);
  find("nvrtcGetSupportedArchs", call_.architectures);
  find("nvrtcCreateProgram", call_.create);
  find("nvrtcDestroyProgram", call_.destroy);
  find("nvrtcCompileProgram", call_.compile);
  find("nvrtcGetPTXSize", call_.ptx_bytes);
  find("nvrtcGetPTX", call_.ptx);
  find("nvrtcGetCUBINSize", call_.cubin_bytes);
  find("nvrtcGetCUBIN", call_.cubin);
  find("nvrtcGetProgramLogSize", call_.log_bytes);
  find("nvrtcGetProgramLog", call_.log);
  if (missing == nullptr) return Done{};
  return Diagnostic{.message = library_ + " is no NVRTC we can use: it does not export " + missing, .fix = remedy};
}

Result<Done> Nvrtc::check(int result, const char* what) const {
  if (result == 0) return Done{};
  return Diagnostic{.message = std::string(what) + " of " + library_ + ": " + call_.error_text(result)};
}

std::string Nvrtc::version() const {
  return std::to_string(major_) + "." + std::to_string(minor_);
}

bool Nvrtc::can_compile_for(int architecture) const {
  int count = 0;
  if (call_.architecture_count(&count) != 0 || count <= 0) return false;
  std::vector<int> known(static_cast<std::size_t>(count));
  return call_.architectures(known.data()) == 0 && std::find(known.begin(), known.end(), architecture) != known.end();
}

Result<std::vector<char>> Nvrtc::compile(const char* main_name, std::span<const Source> sources,
                                         std::span<const std::string> options, ImageKind kind) const {
  const char* main_text = nullptr;
  std::vector<const char*> texts, names, arguments;
  for (const Source& source : sources) {
    if (std::strcmp(source.name, main_name) == 0) {
      main_text = source.text;
    } else {
      texts.push_back(source.text);
      names.push_back(source.name);
    }
  }
  for (const std::string& option : options) arguments.push_back(option.c_str());
  Program program = nullptr;
  const int created =
      call_.create(&program, main_text, main_name, static_cast<int>(texts.size()), texts.data(), names.data());
  if (auto made = check(created, "nvrtcCreateProgram"); !made) return made.error();
  const auto destroy = [this](Program* one) { call_.destroy(one); };
  const std::unique_ptr<Program, decltype(destroy)> owner(&program, destroy);
  const int compiled = call_.compile(program, static_cast<int>(arguments.size()), arguments.data());
  if (compiled != 0) return why_not_compiled(program, compiled);
  return image_of(program, kind);
}

Diagnostic Nvrtc::why_not_compiled(Program program, int result) const {
  std::size_t bytes = 0;
  std::string log;
  if (call_.log_bytes(program, &bytes) == 0 && bytes > 0) {
    log.resize(bytes);
    if (call_.log(program, log.data()) != 0) log.clear();
    log.resize(std::strlen(log.c_str()));
  }
  Diagnostic why = first_error(log);
  why.message = "NVRTC " + version() + " (" + library_ + "): " + call_.error_text(result) + ": " + why.message;
  return why;
}

Result<std::vector<char>> Nvrtc::image_of(Program program, ImageKind kind) const {
  const bool is_cubin = kind == ImageKind::cubin;
  std::size_t bytes = 0;
  if (auto known = check((is_cubin ? call_.cubin_bytes : call_.ptx_bytes)(program, &bytes), "the image's size"); !known)
    return known.error();
  std::vector<char> image(bytes);
  if (auto got = check((is_cubin ? call_.cubin : call_.ptx)(program, image.data()), "the image"); !got)
    return got.error();
  return image;
}

}  // namespace flashmoe::cuda
