// A program whose static objects outlive the driver's: what they still ask of it is answered, and harms nobody. As a
// program of its own, because it is about how a process ends. Freed memory is overwritten (MALLOC_PERTURB_), so that
// what is used after it was freed does not pass for alive.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void* library = nullptr;

// The arguments' types are the parameters' types.
template <class... A>
void call(const char* name, int expected, A... arguments) {
  void* const function = dlsym(library, name);
  const int answer = function == nullptr ? -1 : reinterpret_cast<int (*)(A...)>(function)(arguments...);
  if (answer == expected) return;
  std::printf("%s answered %d, not %d\n", name, answer, expected);
  std::fflush(stdout);
  std::_Exit(1);
}

constexpr const char* text =
    ".version 8.0\n.target sm_80\n.address_size 64\n.global .b8 room[64];\n.func (.param .b32 r) f() { ret; }\n"
    ".visible .entry first() { ret; }\n.visible .entry second() { .reg .b32 %r<2>; call (%r1), f; ret; }\n"
    ".visible .entry textured() { .reg .b32 %r<4>; vadd.s32.s32.s32 %r1, %r2, %r3; ret; }\n";

struct Keeper {
  void* context = nullptr;
  void* module = nullptr;

  void load() { call("cuModuleLoadData", 0, &module, static_cast<const void*>(text)); }
  void launch(const char* kernel) const {
    void* function = nullptr;
    call("cuModuleGetFunction", 0, &function, module, kernel);
    call("cuLaunchKernel", 0, function, 1U, 1U, 1U, 32U, 1U, 1U, 0U, static_cast<void*>(nullptr),
         static_cast<void**>(nullptr), static_cast<void**>(nullptr));
    call("cuCtxSynchronize", 0);
  }
  // The calls that leave something behind in the driver: logs, names of errors, tables.
  void ask() const {
    const char* name = nullptr;
    void* made = nullptr;
    call("cuGetErrorName", 0, 719, &name);
    if (name == nullptr || std::strcmp(name, "CUDA_ERROR_LAUNCH_FAILED") != 0) std::_Exit(2);
    call("cuMipmappedArrayCreate", 801, &made, static_cast<void*>(nullptr), 1U);
    call("cuModuleGetFunction", 801, &made, module, "textured");
  }
  ~Keeper() {
    call("cuCtxSetCurrent", 0, context);
    ask();
    launch("second");
    call("cuModuleUnload", 0, module);
    load();
    launch("first");
    call("cuModuleUnload", 0, module);
    call("cuDevicePrimaryCtxRelease_v2", 0, 0);
    std::puts("unloaded");
  }
};

Keeper& keeper() {
  static Keeper one;
  return one;
}

}  // namespace

int main(int /*argc*/, char** argv) {
  Keeper& one = keeper();  // before the driver has anything: destroyed after it
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::puts(dlerror());
    return 1;
  }
  call("cuInit", 0, 0U);
  call("cuDevicePrimaryCtxRetain", 0, &one.context, 0);
  call("cuCtxSetCurrent", 0, one.context);
  one.load();
  one.launch("first");
  one.ask();
  return 0;
}
