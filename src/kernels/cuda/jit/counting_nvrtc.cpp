// An NVRTC for tests: passes everything on to the real one (FLASHMOE_TEST_NVRTC) and adds a byte to a file
// (FLASHMOE_TEST_COUNT) for every compilation, so that compilations of many processes can be counted. With
// FMS_SAYS_MAJOR it says that it is of that version.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

template <class Result, class... Arguments>
Result pass_on(const char* name, Arguments... arguments) {
  static void* const real = dlopen(std::getenv("FLASHMOE_TEST_NVRTC"), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = real == nullptr ? nullptr : dlsym(real, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "counting_nvrtc: FLASHMOE_TEST_NVRTC has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Result (*)(Arguments...)>(symbol)(arguments...);
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int result) {
  return pass_on<const char*>("nvrtcGetErrorString", result);
}
int nvrtcVersion(int* major, int* minor) {
  const int result = pass_on<int>("nvrtcVersion", major, minor);
#ifdef FMS_SAYS_MAJOR
  *major = FMS_SAYS_MAJOR;
#endif
  return result;
}
int nvrtcGetNumSupportedArchs(int* count) {
  return pass_on<int>("nvrtcGetNumSupportedArchs", count);
}
int nvrtcGetSupportedArchs(int* values) {
  return pass_on<int>("nvrtcGetSupportedArchs", values);
}
int nvrtcCreateProgram(void** program, const char* source, const char* name, int header_count,
                       const char* const* headers, const char* const* header_names) {
  return pass_on<int>("nvrtcCreateProgram", program, source, name, header_count, headers, header_names);
}
int nvrtcDestroyProgram(void** program) {
  return pass_on<int>("nvrtcDestroyProgram", program);
}
int nvrtcCompileProgram(void* program, int option_count, const char* const* options) {
  if (std::FILE* count = std::fopen(std::getenv("FLASHMOE_TEST_COUNT"), "ab")) {
    std::fputc('x', count);
    std::fclose(count);
  }
  return pass_on<int>("nvrtcCompileProgram", program, option_count, options);
}
int nvrtcGetPTXSize(void* program, std::size_t* bytes) {
  return pass_on<int>("nvrtcGetPTXSize", program, bytes);
}
int nvrtcGetPTX(void* program, char* to) {
  return pass_on<int>("nvrtcGetPTX", program, to);
}
int nvrtcGetCUBINSize(void* program, std::size_t* bytes) {
  return pass_on<int>("nvrtcGetCUBINSize", program, bytes);
}
int nvrtcGetCUBIN(void* program, char* to) {
  return pass_on<int>("nvrtcGetCUBIN", program, to);
}
int nvrtcGetProgramLogSize(void* program, std::size_t* bytes) {
  return pass_on<int>("nvrtcGetProgramLogSize", program, bytes);
}
int nvrtcGetProgramLog(void* program, char* to) {
  return pass_on<int>("nvrtcGetProgramLog", program, to);
}
}
