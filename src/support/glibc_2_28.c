// What the shipped libraries call by newer names than glibc 2.28 has, under names of their own: calls end here, and
// from here go to functions that every glibc for x86-64 has had. Linked into each of them by flashmoe_for_old_glibc();
// its names are hidden.
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Moved into libc.so.6, and so versioned anew, by glibc 2.34. Older ones have them in libdl and libpthread, which a
// Python has loaded.
#define FMS_OF_EVERY_GLIBC(result, name, parameters, arguments)  \
  result fms_old_##name parameters;                              \
  __asm__(".symver fms_old_" #name "," #name "@GLIBC_2.2.5");    \
  __attribute__((visibility("hidden"))) result name parameters { \
    return fms_old_##name arguments;                             \
  }

FMS_OF_EVERY_GLIBC(void*, dlopen, (const char* file, int mode), (file, mode))
FMS_OF_EVERY_GLIBC(int, dlclose, (void* handle), (handle))
FMS_OF_EVERY_GLIBC(void*, dlsym, (void* handle, const char* name), (handle, name))
FMS_OF_EVERY_GLIBC(char*, dlerror, (void), ())
FMS_OF_EVERY_GLIBC(int, dladdr, (const void* address, void* info), (address, info))
FMS_OF_EVERY_GLIBC(int, pthread_create, (void* thread, const void* attributes, void* (*run)(void*), void* with),
                   (thread, attributes, run, with))
FMS_OF_EVERY_GLIBC(int, pthread_join, (unsigned long thread, void** result), (thread, result))
FMS_OF_EVERY_GLIBC(int, pthread_once, (int* once, void (*run)(void)), (once, run))

// Versioned anew by 2.29, without a look at errno's old rules.
FMS_OF_EVERY_GLIBC(double, exp, (double x), (x))

// Functions since 2.33, macros before.
__attribute__((visibility("hidden"))) int stat(const char* path, struct stat* to) {
  return (int)syscall(SYS_stat, path, to);
}
__attribute__((visibility("hidden"))) int lstat(const char* path, struct stat* to) {
  return (int)syscall(SYS_lstat, path, to);
}
__attribute__((visibility("hidden"))) int fstat(int file, struct stat* to) {
  return (int)syscall(SYS_fstat, file, to);
}
__attribute__((visibility("hidden"))) int fstat64(int file, struct stat64* to) {
  return (int)syscall(SYS_fstat, file, to);
}
__attribute__((visibility("hidden"))) int fstatat(int folder, const char* path, struct stat* to, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, to, flags);
}

// Whether libstdc++ may count references without atomics (2.32). It never may.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
