// Loading images and finding what is in them: modules, libraries and the linker.
#include <cstring>

#include "images/device_runtime.hpp"
#include "images/elf.hpp"
#include "vgpu/driver/jit_options.hpp"
#include "vgpu/driver/link.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/module.hpp"

using namespace flashmoe;
using namespace flashmoe::vgpu::driver;

namespace {

CUresult load(State& all, Context* context, const ImageSource& source, const JitOptions& options,
              const std::function<void(std::unique_ptr<Module>)>& keep) {
  if (const CUresult refused = all.refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  Loaded loaded = load_module(all, context, source);
  if (auto* const error = std::get_if<LoadError>(&loaded)) {
    const std::string why = error->diagnostic.to_string();
    options.write(why);
    // Who asks for the reason and gets "not for this device" may have another image to try: it is theirs to tell.
    if (error->result != CUDA_ERROR_NO_BINARY_FOR_GPU || !options.takes_errors()) log_line(why);
    return error->result;
  }
  options.write({});
  keep(std::move(std::get<std::unique_ptr<Module>>(loaded)));
  return CUDA_SUCCESS;
}

CUresult load_as_module(const char* function, CUmodule* out, const ImageSource& source, const JitOptions& options) {
  return with_context(function, [&](State& all, Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return load(all, &context, source, options, [&](std::unique_ptr<Module> module) {
      *out = handle_of<CUmodule>(all.modules.add(std::move(module)));
    });
  });
}

CUresult find_global(const Module& module, const char* name, CUdeviceptr* address, std::size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = module.globals.find(name);
  if (found == module.globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = found->second.address;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult find_entry(Module& module, const char* name, Handle* out) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = module.functions.find(std::string_view(name));
  if (found == module.functions.end()) return CUDA_ERROR_NOT_FOUND;
  if (const CUresult refused = check_supported(module, name); refused != CUDA_SUCCESS) return refused;
  *out = handle_of<Handle>(&found->second);
  return CUDA_SUCCESS;
}

CUresult with_module(const char* function, CUmodule handle, const std::function<CUresult(Module&)>& body) {
  return with_context(function, [&](State& all, Context&) {
    // A library's module may be asked for through cuLibraryGetModule.
    Module* module = all.modules.find(handle);
    for (const auto& [key, library] : all.libraries)
      if (module == nullptr && library->module.get() == static_cast<const void*>(handle))
        module = library->module.get();
    return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*module);
  });
}

CUresult with_library(const char* function, CUlibrary handle, const std::function<CUresult(Module&)>& body) {
  return with_driver(function, [&](State& all) {
    Library* const library = all.libraries.find(handle);
    return library == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*library->module);
  });
}

// A library belongs to no context, and its kernels are launched in whichever is current.
CUresult load_as_library(const char* function, CUlibrary* out, const ImageSource& source, const JitOptions& options) {
  return with_driver(function, [&](State& all) {
    if (const Context* const current = current_context(); current != nullptr && current->sticky != CUDA_SUCCESS)
      return current->sticky;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return load(all, nullptr, source, options, [&](std::unique_ptr<Module> module) {
      auto library = std::make_unique<Library>();
      library->module = std::move(module);
      *out = handle_of<CUlibrary>(all.libraries.add(std::move(library)));
    });
  });
}

}  // namespace

VGPU_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return load_as_module("cuModuleLoadData", out, image, {0, nullptr, nullptr});
}
VGPU_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned count, int* options, void** values) {
  return load_as_module("cuModuleLoadDataEx", out, image, {count, options, values});
}
VGPU_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return load_as_module("cuModuleLoadFatBinary", out, image, {0, nullptr, nullptr});
}
VGPU_EXPORT CUresult cuModuleLoad(CUmodule* out, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto bytes = read_bytes(path);
  if (!bytes) return CUDA_ERROR_FILE_NOT_FOUND;
  return load_as_module("cuModuleLoad", out, std::span<const std::byte>(*bytes), {0, nullptr, nullptr});
}
VGPU_EXPORT CUresult cuModuleUnload(CUmodule handle) {
  return with_context("cuModuleUnload", [&](State& all, Context&) {
    if (const CUresult refused = all.refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
    return all.modules.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
VGPU_EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  return with_module("cuModuleGetFunction", handle, [&](Module& module) { return find_entry(module, name, out); });
}
VGPU_EXPORT CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  return with_module("cuModuleGetFunctionCount", handle, [&](Module& module) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(module.functions.size());
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle, const char* name) {
  return with_module("cuModuleGetGlobal", handle,
                     [&](Module& module) { return find_global(module, name, address, bytes); });
}
VGPU_EXPORT CUresult cuModuleGetLoadingMode(int* mode) {
  return with_driver("cuModuleGetLoadingMode", [&](State&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = 2;  // CU_MODULE_LAZY_LOADING
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuLibraryLoadData(CUlibrary* out, const void* image, int* options, void** values, unsigned count,
                                       int* /*library_options*/, void** /*library_values*/,
                                       unsigned /*library_count*/) {
  return load_as_library("cuLibraryLoadData", out, image, {count, options, values});
}
VGPU_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, int* options, void** values,
                                           unsigned count, int* /*library_options*/, void** /*library_values*/,
                                           unsigned /*library_count*/) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto bytes = read_bytes(path);
  if (!bytes) return CUDA_ERROR_FILE_NOT_FOUND;
  return load_as_library("cuLibraryLoadFromFile", out, std::span<const std::byte>(*bytes), {count, options, values});
}
VGPU_EXPORT CUresult cuLibraryUnload(CUlibrary handle) {
  return with_driver("cuLibraryUnload", [&](State& all) {
    if (const CUresult refused = all.refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
    return all.libraries.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
VGPU_EXPORT CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  return with_library("cuLibraryGetKernel", handle, [&](Module& module) { return find_entry(module, name, out); });
}
VGPU_EXPORT CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
  return with_library("cuLibraryGetKernelCount", handle, [&](Module& module) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(module.functions.size());
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary handle) {
  return with_library("cuLibraryEnumerateKernels", handle, [&](Module& module) {
    if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned i = 0;
    for (auto& [name, function] : module.functions)
      if (i < count) kernels[i++] = handle_of<CUkernel>(&function);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return with_library("cuLibraryGetModule", handle, [&](Module& module) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUmodule>(&module);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle, const char* name) {
  return with_library("cuLibraryGetGlobal", handle,
                      [&](Module& module) { return find_global(module, name, address, bytes); });
}
VGPU_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle, const char* name) {
  return with_library("cuLibraryGetManaged", handle,
                      [&](Module& module) { return find_global(module, name, address, bytes); });
}
VGPU_EXPORT CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  return with_driver("cuKernelGetFunction", [&](State& all) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Function* const function = find_function(all, kernel);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *out = handle_of<CUfunction>(function);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  return with_driver("cuKernelGetLibrary", [&](State& all) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    const Function* const function = find_function(all, kernel);
    for (const auto& [key, library] : all.libraries)
      if (function != nullptr && library->module.get() == function->module) *out = handle_of<CUlibrary>(library.get());
    return *out == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;  // a module's function has none
  });
}

VGPU_EXPORT CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, CUlinkState* out) {
  return with_context("cuLinkCreate", [&](State& all, Context&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const JitOptions logs(count, options, values);
    logs.write({});
    *out = handle_of<CUlinkState>(all.links.add(std::make_unique<Link>(Link{.options = logs})));
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult add_input(State& all, CUlinkState handle, int type, const void* data, std::size_t bytes, const char* name) {
  Link* const link = all.links.find(handle);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::string called = name == nullptr ? "an input" : name;
  const auto refuse = [&](CUresult result, const std::string& why) {
    const std::string told = "cuLinkAdd of " + called + ": " + why;
    link->options.write(told);
    log_line(told);
    return result;
  };
  if (type == CU_JIT_INPUT_LIBRARY && is_device_runtime(called)) {
    link->texts.emplace_back(device_runtime_ptx);
    return CUDA_SUCCESS;
  }
  if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_FATBINARY)
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "objects, libraries and LTO code hold no PTX that can be run (fix: link PTX)");
  const std::span given(static_cast<const std::byte*>(data), bytes);
  const auto image = read_image(given, all.machine->sm());
  if (!image && type == CU_JIT_INPUT_FATBINARY && holds_device_runtime(given)) {
    link->texts.emplace_back(device_runtime_ptx);
    return CUDA_SUCCESS;
  }
  if (!image)
    return refuse(image.error().fix.empty() ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_NO_BINARY_FOR_GPU,
                  image.error().to_string());
  link->texts.insert(link->texts.end(), image->ptx.begin(), image->ptx.end());
  return CUDA_SUCCESS;
}

}  // namespace

VGPU_EXPORT CUresult cuLinkAddData_v2(CUlinkState handle, int type, void* data, std::size_t bytes, const char* name,
                                      unsigned /*count*/, int* /*options*/, void** /*values*/) {
  return with_context("cuLinkAddData",
                      [&](State& all, Context&) { return add_input(all, handle, type, data, bytes, name); });
}
VGPU_EXPORT CUresult cuLinkAddFile_v2(CUlinkState handle, int type, const char* path, unsigned /*count*/,
                                      int* /*options*/, void** /*values*/) {
  return with_context("cuLinkAddFile", [&](State& all, Context&) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto bytes = read_bytes(path);
    if (!bytes) return CUDA_ERROR_FILE_NOT_FOUND;
    return add_input(all, handle, type, bytes->data(), bytes->size(), path);
  });
}
VGPU_EXPORT CUresult cuLinkComplete(CUlinkState handle, void** image, std::size_t* bytes) {
  return with_context("cuLinkComplete", [&](State& all, Context&) {
    Link* const link = all.links.find(handle);
    if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (image == nullptr || bytes == nullptr || link->texts.empty()) return CUDA_ERROR_INVALID_VALUE;
    link->image = link_container(link->texts);
    *image = link->image.data();
    *bytes = link->image.size();
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuLinkDestroy(CUlinkState handle) {
  return with_context("cuLinkDestroy", [&](State& all, Context&) {
    return all.links.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
