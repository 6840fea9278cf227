// libnvJitLink.so.13 for programs on the virtual GPU. NVIDIA's makes a cubin of PTX, which the virtual GPU cannot run;
// this one keeps the texts, in the container that cuLinkComplete returns too, and what it hands out as a cubin is
// loaded like one. It is preloaded, so it answers for every name that the real library exports: other libraries
// (cuSPARSE, cuFFT) are bound to them when they are loaded.
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "images/device_runtime.hpp"
#include "images/elf.hpp"
#include "images/image.hpp"

namespace {

using namespace flashmoe;

// nvJitLink.h of CUDA 13.0
enum Answer : int {
  success = 0,
  missing_arch = 2,
  invalid_input = 3,
  internal_error = 6,
  unrecognized_input = 8,
  null_input = 10,
  lto_not_enabled = 18,
};
enum Input : int { cubin = 1, ptx = 2, fatbin = 4, library = 6, any = 10 };

struct Link {
  int sm = 0;
  std::vector<std::string> texts{};
  std::vector<std::byte> image{};
  std::string errors{};

  Answer fail(Answer answer, const std::string& why) {
    errors += why + '\n';
    return answer;
  }
};

// A C caller cannot catch.
template <class Body>
Answer answered(Link* link, const Body& body) {
  if (link == nullptr) return null_input;
  try {
    return body(*link);
  } catch (const std::exception& error) {
    return internal_error;
  }
}

Answer add(Link& link, int type, std::span<const std::byte> bytes, const char* name) {
  const std::string called = name == nullptr ? "an input" : name;
  if (type == library && is_device_runtime(called)) {
    link.texts.emplace_back(device_runtime_ptx);
    return success;
  }
  if (type != cubin && type != ptx && type != fatbin && type != any)
    return link.fail(
        unrecognized_input,
        called + ": LTO code, objects and libraries hold no PTX that the virtual GPU can run (fix: link PTX)");
  auto image = read_image(bytes, link.sm);
  if (!image) return link.fail(invalid_input, fmt::format("{}: {}", called, image.error().to_string()));
  link.texts.insert(link.texts.end(), image->ptx.begin(), image->ptx.end());
  return success;
}

Answer copy_size(Link* link, std::size_t* size, const auto& bytes_of) {
  return answered(link, [&](Link& one) {
    if (size == nullptr) return null_input;
    *size = bytes_of(one).size();
    return success;
  });
}

Answer copy_out(Link* link, void* to, const auto& bytes_of) {
  return answered(link, [&](Link& one) {
    const auto& bytes = bytes_of(one);
    if (to == nullptr) return null_input;
    std::memcpy(to, bytes.data(), bytes.size());
    return success;
  });
}

const auto image_of = [](const Link& link) -> const auto& {
  return link.image;
};
const auto log_of = [](const Link& link) {
  return std::string_view(link.errors.c_str(), link.errors.size() + 1);  // with its zero
};
const auto nothing_of = [](const Link&) { return std::string_view("\0", 1); };

Answer no_lto(Link* link) {
  return answered(link, [](Link& one) {
    return one.fail(lto_not_enabled, "there is no LTO code: the virtual GPU runs the PTX that was linked");
  });
}

}  // namespace

// Each function under its own name and under those that the headers of CUDA 13.0, 13.1, ... call.
#define EXPORTED extern "C" __attribute__((visibility("default")))
// clang-format does not come to rest here.
// clang-format off
#define VERSION(name, minor, ...) EXPORTED Answer __##name##_13_##minor(__VA_ARGS__) __attribute__((alias(#name)));
#define VERSIONS(name, ...)     \
  VERSION(name, 0, __VA_ARGS__) \
  VERSION(name, 1, __VA_ARGS__) \
  VERSION(name, 2, __VA_ARGS__) \
  VERSION(name, 3, __VA_ARGS__) \
  VERSION(name, 4, __VA_ARGS__) \
  VERSION(name, 5, __VA_ARGS__) \
  VERSION(name, 6, __VA_ARGS__) \
  VERSION(name, 7, __VA_ARGS__) \
  VERSION(name, 8, __VA_ARGS__) \
  VERSION(name, 9, __VA_ARGS__)
// clang-format on

EXPORTED Answer nvJitLinkCreate(Link** out, std::uint32_t count, const char* const* options) {
  if (out == nullptr || (count != 0 && options == nullptr)) return null_input;
  int sm = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view option = options[i] == nullptr ? "" : options[i];
    for (const std::string_view start : {"-arch=sm_", "-arch=compute_"})
      if (option.starts_with(start)) std::from_chars(option.data() + start.size(), option.data() + option.size(), sm);
  }
  if (sm == 0) return missing_arch;
  *out = new (std::nothrow) Link{.sm = sm};
  return *out == nullptr ? internal_error : success;
}
EXPORTED Answer nvJitLinkDestroy(Link** link) {
  if (link == nullptr) return null_input;
  delete *link;
  *link = nullptr;
  return success;
}
EXPORTED Answer nvJitLinkAddData(Link* link, int type, const void* data, std::size_t size, const char* name) {
  return answered(link, [&](Link& one) {
    if (data == nullptr) return null_input;
    return add(one, type, {static_cast<const std::byte*>(data), size}, name);
  });
}
EXPORTED Answer nvJitLinkAddFile(Link* link, int type, const char* path) {
  return answered(link, [&](Link& one) {
    if (path == nullptr) return null_input;
    const auto bytes = read_bytes(path);
    return bytes ? add(one, type, *bytes, path) : one.fail(invalid_input, bytes.error().to_string());
  });
}
EXPORTED Answer nvJitLinkComplete(Link* link) {
  return answered(link, [](Link& one) {
    if (one.texts.empty()) return one.fail(invalid_input, "nothing to link (fix: add PTX)");
    one.image = link_container(one.texts);
    return success;
  });
}
EXPORTED Answer nvJitLinkGetLinkedCubinSize(Link* link, std::size_t* size) {
  return copy_size(link, size, image_of);
}
EXPORTED Answer nvJitLinkGetLinkedCubin(Link* link, void* to) {
  return copy_out(link, to, image_of);
}
EXPORTED Answer nvJitLinkGetLinkedPtxSize(Link* link, std::size_t*) {
  return no_lto(link);
}
EXPORTED Answer nvJitLinkGetLinkedPtx(Link* link, char*) {
  return no_lto(link);
}
EXPORTED Answer nvJitLinkGetLinkedLTOIRSize(Link* link, std::size_t*) {
  return no_lto(link);
}
EXPORTED Answer nvJitLinkGetLinkedLTOIR(Link* link, void*) {
  return no_lto(link);
}
EXPORTED Answer nvJitLinkGetErrorLogSize(Link* link, std::size_t* size) {
  return copy_size(link, size, log_of);
}
EXPORTED Answer nvJitLinkGetErrorLog(Link* link, char* to) {
  return copy_out(link, to, log_of);
}
EXPORTED Answer nvJitLinkGetInfoLogSize(Link* link, std::size_t* size) {
  return copy_size(link, size, nothing_of);
}
EXPORTED Answer nvJitLinkGetInfoLog(Link* link, char* to) {
  return copy_out(link, to, nothing_of);
}
// From 12.3 on callers take for granted that LTO code can be linked (numba-cuda compiles to nothing else then): the
// version named is the newest one that does not promise it, and callers go by way of PTX. No answer at all is worse,
// since not everybody who asks expects an error.
EXPORTED Answer nvJitLinkVersion(unsigned* major, unsigned* minor) {
  if (major == nullptr || minor == nullptr) return null_input;
  *major = 12;
  *minor = 2;
  return success;
}
// Exported and documented nowhere.
EXPORTED Answer __nvJitLinkAPI() {  // NOLINT(bugprone-reserved-identifier): its name
  return internal_error;
}

VERSIONS(nvJitLinkCreate, Link**, std::uint32_t, const char* const*)
VERSIONS(nvJitLinkDestroy, Link**)
VERSIONS(nvJitLinkAddData, Link*, int, const void*, std::size_t, const char*)
VERSIONS(nvJitLinkAddFile, Link*, int, const char*)
VERSIONS(nvJitLinkComplete, Link*)
VERSIONS(nvJitLinkGetLinkedCubinSize, Link*, std::size_t*)
VERSIONS(nvJitLinkGetLinkedCubin, Link*, void*)
VERSIONS(nvJitLinkGetLinkedPtxSize, Link*, std::size_t*)
VERSIONS(nvJitLinkGetLinkedPtx, Link*, char*)
VERSIONS(nvJitLinkGetLinkedLTOIRSize, Link*, std::size_t*)
VERSIONS(nvJitLinkGetLinkedLTOIR, Link*, void*)
VERSIONS(nvJitLinkGetErrorLogSize, Link*, std::size_t*)
VERSIONS(nvJitLinkGetErrorLog, Link*, char*)
VERSIONS(nvJitLinkGetInfoLogSize, Link*, std::size_t*)
VERSIONS(nvJitLinkGetInfoLog, Link*, char*)
