// What the shipped libraries call by newer names than glibc 2.28 has, under names of their own: calls end here, and
// from here go to functions that every glibc for x86-64 has had. Linked into each of them by flashmoe_for_old_glibc();
// its names are hidden.
#define _GNU_SOURCE
#include <sys/stat.h>

#if !defined(__x86_64__) || defined(__ILP32__)
#error "the versions of symbols below are those of x86-64"
#endif

// Calls what is versioned so instead: `name(parameters)`.
#define FMS_OLD(result, name, version, parameters) \
  result fms_old_##name parameters;                \
  __asm__(".symver fms_old_" #name "," #name "@" version)
#define FMS_HIDDEN __attribute__((visibility("hidden")))
#define FMS_OF_EVERY_GLIBC(result, name, parameters, arguments) \
  FMS_OLD(result, name, "GLIBC_2.2.5", parameters);             \
  FMS_HIDDEN result name parameters {                           \
    return fms_old_##name arguments;                            \
  }

// Moved into libc.so.6, and so versioned anew, by glibc 2.34. Older ones have them in libdl and libpthread, which the
// libraries name as needed.
FMS_OF_EVERY_GLIBC(void*, dlopen, (const char* file, int mode), (file, mode))
FMS_OF_EVERY_GLIBC(int, dlclose, (void* handle), (handle))
FMS_OF_EVERY_GLIBC(void*, dlsym, (void* handle, const char* name), (handle, name))
FMS_OF_EVERY_GLIBC(char*, dlerror, (void), ())
FMS_OF_EVERY_GLIBC(int, dladdr, (const void* address, void* info), (address, info))
FMS_OF_EVERY_GLIBC(int, pthread_create, (void* thread, const void* attributes, void* (*run)(void*), void* with),
                   (thread, attributes, run, with))
FMS_OF_EVERY_GLIBC(int, pthread_join, (unsigned long thread, void** result), (thread, result))
FMS_OF_EVERY_GLIBC(int, pthread_once, (int* once, void (*run)(void)), (once, run))

// Versioned anew by 2.29, which dropped SVID's error rules.
FMS_OF_EVERY_GLIBC(double, exp, (double x), (x))

// In libc.so.6 since 2.33; each program had its own before, around these.
enum { kernel_layout = 1 };
FMS_OLD(int, __xstat, "GLIBC_2.2.5", (int layout, const char* path, void* to));
FMS_OLD(int, __lxstat, "GLIBC_2.2.5", (int layout, const char* path, void* to));
FMS_OLD(int, __fxstat, "GLIBC_2.2.5", (int layout, int file, void* to));
FMS_OLD(int, __fxstatat, "GLIBC_2.4", (int layout, int folder, const char* path, void* to, int flags));
FMS_HIDDEN int stat(const char* path, struct stat* to) {
  return fms_old___xstat(kernel_layout, path, to);
}
FMS_HIDDEN int lstat(const char* path, struct stat* to) {
  return fms_old___lxstat(kernel_layout, path, to);
}
FMS_HIDDEN int fstat(int file, struct stat* to) {
  return fms_old___fxstat(kernel_layout, file, to);
}
FMS_HIDDEN int fstat64(int file, struct stat64* to) {
  return fms_old___fxstat(kernel_layout, file, to);
}
FMS_HIDDEN int fstatat(int folder, const char* path, struct stat* to, int flags) {
  return fms_old___fxstatat(kernel_layout, folder, path, to, flags);
}

// Whether libstdc++ may count references without atomics (2.32). This copy, which only it reads, never says so.
FMS_HIDDEN char __libc_single_threaded = 0;
