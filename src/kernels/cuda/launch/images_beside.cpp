#include "kernels/cuda/launch/images_beside.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "kernels/cuda/jit/private_directory.hpp"

namespace flashmoe::cuda {
namespace {

constexpr const char* remedy =
    "pip install flashmoe-science-cuda, or NVRTC (nvidia-cuda-nvrtc), which compiles each "
    "kernel when it is first wanted";

ImagesBeside absent(const std::string& why) {
  return {.none = NoImages{.why = {.message = "no CUDA images here: " + why, .fix = remedy}}};
}

ImagesBeside refused(const std::string& path, const Diagnostic& why) {
  const std::string message = "the CUDA images are not used: " + path + " " + why.message;
  return {.none = NoImages{.why = {.message = message, .fix = why.fix}, .is_refused = true}};
}

std::string of_last_error() {
  return std::generic_category().message(errno);
}

// Who may write the library is trusted already, and many folders of packages may be written by a group. A folder in
// which files can be added but those of others not replaced (/tmp) is another matter.
std::optional<Diagnostic> why_not_trusted(const struct stat& library, const struct stat& folder,
                                          const struct stat& images) {
  const bool adds_only = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWGRP) != 0;
  if ((folder.st_mode & S_IWOTH) != 0 || adds_only)
    return Diagnostic{.message = "lies in a folder that others may write to", .fix = "chmod go-w its folder"};
  if (!S_ISREG(images.st_mode)) return Diagnostic{.message = "is no regular file"};
  if (images.st_uid != 0 && images.st_uid != ::geteuid() && images.st_uid != library.st_uid) {
    return Diagnostic{.message = "belongs to user " + std::to_string(images.st_uid) + ", and the library to user " +
                                 std::to_string(library.st_uid),
                      .fix = "install both as one user"};
  }
  const bool by_same_group = (library.st_mode & S_IWGRP) != 0 && library.st_gid == images.st_gid;
  if ((images.st_mode & S_IWOTH) != 0 || ((images.st_mode & S_IWGRP) != 0 && !by_same_group))
    return Diagnostic{.message = "may be written by others than its owner", .fix = "chmod go-w the file"};
  return std::nullopt;
}

// Empty: it cannot be mapped.
std::shared_ptr<const unsigned char> mapped(const Descriptor& file, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return {};
  return {static_cast<const unsigned char*>(at),
          [bytes](const unsigned char* begin) { ::munmap(const_cast<unsigned char*>(begin), bytes); }};
}

}  // namespace

ImagesBeside find_images_beside(const std::string& library, const StoreIdentity& wanted) {
  // Another folder may be the current one by now.
  if (!library.starts_with('/'))
    return absent("the library was loaded as " + library + ", which does not tell its folder");
  const std::string folder_path = library.substr(0, library.rfind('/') + 1), path = folder_path + image_store_name;
  const Descriptor folder(::open(folder_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  // A pipe in the file's place must not keep us waiting for its writer.
  const Descriptor file(::openat(folder.get(), image_store_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return absent("there is no " + path);
  struct stat of_library {
  }, of_folder{}, of_images{};
  if (!file.is_open() || ::fstat(folder.get(), &of_folder) != 0 || ::fstat(file.get(), &of_images) != 0 ||
      ::stat(library.c_str(), &of_library) != 0)
    return refused(path, {.message = "cannot be read: " + of_last_error()});
  if (const auto why = why_not_trusted(of_library, of_folder, of_images)) return refused(path, *why);
  const auto bytes = static_cast<std::size_t>(of_images.st_size);
  ImagesBeside found;
  if (bytes > 0) found.bytes = mapped(file, bytes);
  if (bytes > 0 && found.bytes == nullptr) return refused(path, {.message = "cannot be read: " + of_last_error()});
  auto store = read_image_store({found.bytes.get(), bytes}, wanted);
  if (!store) return refused(path, store.error());
  found.store = std::move(*store);
  return found;
}

}  // namespace flashmoe::cuda
