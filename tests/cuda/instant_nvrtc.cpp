// An NVRTC for tests that compiles everything to the same few bytes at once, without allocating. Loaded as
// FLASHMOE_NVRTC, in front of a driver that does not look at images.
#include <cstddef>
#include <cstring>

namespace flashmoe::cuda {
struct ProgramOpaque;  // the type that the caller's pointers have
}
using Program = flashmoe::cuda::ProgramOpaque*;

namespace {
constexpr char image[] = "an image";
}

extern "C" {

const char* nvrtcGetErrorString(int) {
  return "no error";
}
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* values) {
  *values = 89;
  return 0;
}
int nvrtcCreateProgram(Program* program, const char*, const char*, int, const char* const*, const char* const*) {
  *program = nullptr;
  return 0;
}
int nvrtcDestroyProgram(Program*) {
  return 0;
}
int nvrtcCompileProgram(Program, int, const char* const*) {
  return 0;
}
int nvrtcGetPTXSize(Program, std::size_t* bytes) {
  *bytes = sizeof image;
  return 0;
}
int nvrtcGetPTX(Program, char* to) {
  std::memcpy(to, image, sizeof image);
  return 0;
}
int nvrtcGetCUBINSize(Program, std::size_t* bytes) {
  *bytes = sizeof image;
  return 0;
}
int nvrtcGetCUBIN(Program, char* to) {
  std::memcpy(to, image, sizeof image);
  return 0;
}
int nvrtcGetProgramLogSize(Program, std::size_t* bytes) {
  *bytes = 0;
  return 0;
}
int nvrtcGetProgramLog(Program, char*) {
  return 0;
}
}
