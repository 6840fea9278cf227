#include "workflow/gpu/explain.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <sstream>

#include "images/cubin.hpp"
#include "images/elf.hpp"
#include "images/fatbin.hpp"
#include "images/image.hpp"
#include "runtime/device.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* shared_runtime_advice =
    "link the runtime as a library: NVCC_APPEND_FLAGS=\"-cudart shared\", or CMake's "
    "-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared";

// NVIDIA's, whose kernels are SASS alone.
constexpr std::array sass_libraries{"libcublas",   "libcudnn", "libcufft", "libcurand",  "libcusolver",
                                    "libcusparse", "libnccl",  "libnpp",   "libcutensor"};

bool begins_with_one_of(std::string_view name, std::span<const char* const> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const char* one) { return name.starts_with(one); });
}

bool is_of_cuda(std::string_view name) {
  constexpr std::array others{"libcuda.so", "libcudart", "libnvJitLink", "libnvrtc", "libnvidia-ml", "libcupti"};
  return begins_with_one_of(name, sass_libraries) || begins_with_one_of(name, others);
}

Finding lack(std::string group, std::string what, std::string where, std::string fix) {
  return {.severity = Severity::error,
          .group = std::move(group),
          .what = std::move(what),
          .where = std::move(where),
          .fix = std::move(fix),
          .code = codes::run_lacks};
}

// What the program's own loader says: "	libcudart.so.13 => /path (0x...)" or "... => not found". Preloaded ones
// stand there by their path alone.
std::vector<NeededLibrary> loaded_libraries(const std::string& loader, const std::string& program,
                                            const std::vector<std::string>& environment,
                                            const std::string& our_folder) {
  std::vector<NeededLibrary> found;
  // As ldd does: the loader lists and ends; nothing of the program runs.
  std::vector<std::string> listing = environment;
  listing.emplace_back("LD_TRACE_LOADED_OBJECTS=1");
  const auto ended = run_process({.argv = {loader, program}, .environment = std::move(listing)});
  if (!ended) return found;
  std::istringstream lines(ended->out);
  for (std::string name, arrow, path; lines >> name;) {
    std::string rest;
    std::getline(lines, rest);
    std::istringstream words(rest);
    if (!(words >> arrow >> path) || arrow != "=>") path = name;
    if (path == "not") path.clear();
    found.push_back({.name = std::filesystem::path(name).filename().string(),
                     .path = path,
                     .is_ours = !path.empty() && std::filesystem::path(path).parent_path() == our_folder});
  }
  return found;
}

// The fatbins of a section lie one behind the other, each at a multiple of 8 bytes.
std::vector<std::span<const std::byte>> fatbins_in(std::span<const std::byte> section) {
  std::vector<std::span<const std::byte>> found;
  for (std::size_t at = 0; at + fatbin_header_bytes <= section.size();) {
    const auto length = fatbin_length(section.subspan(at));
    if (!length || *length < fatbin_header_bytes || *length > section.size() - at) {
      at += 8;
      continue;
    }
    found.push_back(section.subspan(at, *length));
    at += (*length + 7) / 8 * 8;
  }
  return found;
}

// Names behind `.entry`; those that are compiled, not comments.
std::vector<std::string> entries_of(const std::string& ptx) {
  std::vector<std::string> names;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comment = line.find("//");
    const std::size_t entry = line.find(".entry");
    if (entry == std::string::npos || comment < entry) continue;
    const std::size_t begin = line.find_first_not_of(" \t", entry + 6);
    if (begin == std::string::npos) continue;
    names.push_back(line.substr(begin, line.find_first_of(" \t({", begin) - begin));
  }
  return names;
}

// The virtual driver, asked about images. It tells why not in its log.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> open(const std::string& gpu) {
    auto reader = std::unique_ptr<Reader>(new Reader);
    // Settings of this process, read when the driver is loaded.
    setenv("VGPU_DEVICE", gpu.c_str(), 1);
    setenv("VGPU_CHECK", "none", 1);
    setenv("VGPU_LOG", reader->log().c_str(), 1);
    setenv("VGPU_LOG_CALLS", "0", 1);
    unsetenv("VGPU_REPORT");
    const auto library = runtime::virtual_driver_library();
    if (!library) return library.error();
    const auto driver = runtime::Driver::open(*library);
    if (!driver) return driver.error();
    const auto context = runtime::Context::create(*driver);
    if (!context) return context.error();
    reader->context_ = *context;
    const auto major = reader->context_->attribute(runtime::cuda::DeviceAttribute::compute_capability_major);
    const auto minor = reader->context_->attribute(runtime::cuda::DeviceAttribute::compute_capability_minor);
    if (!major) return major.error();
    if (!minor) return minor.error();
    reader->sm_ = *major * 10 + *minor;
    return reader;
  }

  [[nodiscard]] int sm() const { return sm_; }

  // The kernels of these texts, linked together.
  void read(const std::vector<std::string>& ptx, const std::string& file, Explanation& to) {
    const runtime::Context::Current current(*context_);
    const runtime::cuda::Functions& call = context_->driver().call();
    const auto linked = link_container(ptx);
    runtime::cuda::ModuleHandle module = nullptr;
    const auto loaded = call.module_load(&module, linked.data());
    const std::string why_not = new_line_of_log();
    for (const std::string& text : ptx) {
      for (const std::string& name : entries_of(text)) {
        NeededKernel kernel{.name = demangled(name), .file = file, .why = {}};
        runtime::cuda::FunctionHandle function = nullptr;
        if (loaded != runtime::cuda::success)
          kernel.why = why_not;
        else if (call.module_function(&function, module, name.c_str()) != runtime::cuda::success)
          kernel.why = new_line_of_log();
        to.kernels.push_back(std::move(kernel));
      }
    }
    if (module != nullptr) static_cast<void>(call.module_unload(module));
  }

 private:
  Reader() = default;
  [[nodiscard]] std::string log() const { return (directory_.path() / "driver.log").string(); }

  // The last one since the question before, without who says it.
  std::string new_line_of_log() {
    const std::string text = whole_file(log()).value_or("");
    std::string fresh = text.substr(std::min(read_, text.size()));
    read_ = text.size();
    while (fresh.ends_with('\n')) fresh.pop_back();
    if (const std::size_t reason = fresh.rfind("cannot run on the virtual GPU: "); reason != std::string::npos)
      return fresh.substr(fresh.find(": ", reason) + 2);
    return fresh.substr(fresh.rfind('\n') + 1);
  }

  TemporaryDirectory directory_{};
  std::shared_ptr<runtime::Context> context_{};
  int sm_ = 0;
  std::size_t read_ = 0;
};

// nvcc links an image without kernels into every program.
bool has_kernels(std::span<const std::byte> fatbin) {
  const auto entries = read_fatbin(fatbin);
  if (!entries) return true;  // whatever it is, it is told
  return std::any_of(entries->begin(), entries->end(), [](const FatbinEntry& entry) {
    if (entry.kind != FatbinEntry::Kind::cubin) return true;
    const auto cubin = read_cubin(entry.bytes);
    return !cubin || !cubin->kernels.empty();
  });
}

// Those without PTX are one line for all of them: there may be hundreds.
void read_images(const Elf& elf, const std::string& path, Reader& reader, Explanation& to) {
  std::size_t unreadable = 0;
  Diagnostic first;
  const auto texts_of = [&](std::span<const std::byte> fatbin) -> std::vector<std::string> {
    auto image = read_image(fatbin, reader.sm());
    if (image) return std::move(image->ptx);
    if (has_kernels(fatbin) && unreadable++ == 0) first = image.error();
    return {};
  };
  if (const ElfSection* const parts = elf.find("__nv_relfatbin"); parts != nullptr) {
    // Relocatable device code (fatbinary_section.h): what .nv_fatbin has is nvcc's link of these.
    std::vector<std::string> ptx;
    for (const auto fatbin : fatbins_in(parts->bytes)) {
      for (std::string& text : texts_of(fatbin)) ptx.push_back(std::move(text));
    }
    if (!ptx.empty()) reader.read(ptx, path, to);
  } else if (const ElfSection* const whole = elf.find(".nv_fatbin"); whole != nullptr) {
    for (const auto fatbin : fatbins_in(whole->bytes)) {
      if (const auto ptx = texts_of(fatbin); !ptx.empty()) reader.read(ptx, path, to);
    }
  }
  if (unreadable > 0) {
    to.lacks.push_back(lack("kernels",
                            unreadable == 1 ? first.message : fmt::format("{} images: {}", unreadable, first.message),
                            path, first.fix));
  }
}

// A file of the program's own: how it comes by the runtime, and its kernels.
struct Traits {
  bool has_shared_runtime = false, has_static_runtime = false;
  std::set<std::string> needed{};  // libraries
};
Traits read_object(const std::string& path, Reader& reader, Explanation& to) {
  const auto bytes = read_bytes(path);
  if (!bytes) return {};
  const auto elf = read_elf(*bytes);
  if (!elf) return {};
  Traits traits;
  for (const std::string_view name : elf->needed()) {
    traits.needed.emplace(name);
    traits.has_shared_runtime |= name.starts_with("libcudart.so");
  }
  const bool has_images = elf->find(".nv_fatbin") != nullptr;
  const auto symbols = elf->symbols(SHT_SYMTAB);
  const bool defines_runtime = std::any_of(symbols.begin(), symbols.end(), [](const ElfSymbol& symbol) {
    return symbol.name == "cudaGetDeviceCount" && !symbol.undefined();
  });
  // Kernels are registered with a runtime: where none is asked for, it is inside.
  traits.has_static_runtime = defines_runtime || (has_images && !traits.has_shared_runtime);
  if (traits.has_static_runtime) {
    to.lacks.push_back(lack("runtime",
                            "NVIDIA's runtime is linked into it (static cudart), and asks its driver for tables that "
                            "nobody documents",
                            path, shared_runtime_advice));
  }
  if (has_images) read_images(*elf, path, reader, to);
  return traits;
}

std::string runtime_word(const Traits& traits) {
  if (traits.has_shared_runtime && traits.has_static_runtime) return "both";
  if (traits.has_static_runtime) return "static";
  return traits.has_shared_runtime ? "shared" : "none";
}

// Sections of an executable that a loader loads: its path. Empty: linked whole, or no executable.
std::string loader_of(const Elf& elf) {
  const ElfSection* const section = elf.find(".interp");
  if (section == nullptr) return {};
  const std::string text(reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size());
  return text.substr(0, text.find('\0'));
}

void judge_libraries(Explanation& to) {
  for (const NeededLibrary& library : to.libraries) {
    if (library.path.empty()) {
      const bool is_older_runtime = library.name.starts_with("libcudart.so");
      to.lacks.push_back(lack("libraries", library.name + " is not found", "",
                              is_older_runtime ? "build with CUDA 13: libcudart.so.13 is here"
                                               : "install it, or put its folder into LD_LIBRARY_PATH"));
    } else if (!library.is_ours && begins_with_one_of(library.name, sass_libraries)) {
      to.lacks.push_back(lack("libraries", library.name + " has its kernels as SASS, which is not executed",
                              library.path,
                              "leave its calls out of what runs here, or put kernels of PTX in their place"));
    }
  }
}

}  // namespace

Result<Explanation> explain_program(const std::string& program, const ProgramOptions& options) {
  Explanation told;
  const auto device = program_device(options);
  if (!device) return device.error();
  auto environment = program_environment(options);
  if (!environment) return environment.error();
  told.environment = std::move(*environment);
  told.program = program.find('/') == std::string::npos ? find_program({program}) : program;
  const auto bytes = read_bytes(told.program);
  if (told.program.empty() || !bytes)
    return Diagnostic{
        .message = program + " cannot be read", .fix = "name a program that is there", .code = codes::run_cannot_start};
  const auto elf = read_elf(*bytes);
  if (!elf) {
    told.notes.push_back("not an executable but a script: what its interpreter loads is seen when it runs");
    return told;
  }
  const std::string loader = loader_of(*elf);
  if (loader.empty()) {
    told.lacks.push_back(lack("libraries", "it is linked statically, so that no driver can be put in its place",
                              told.program, "link it dynamically"));
    return told;
  }
  const auto library = runtime::virtual_driver_library();
  if (!library) return library.error();
  const auto all =
      loaded_libraries(loader, told.program, told.environment, std::filesystem::path(*library).parent_path().string());
  auto reader = Reader::open(device->gpu);
  if (!reader) return reader.error();
  Traits traits = read_object(told.program, **reader, told);
  for (const NeededLibrary& one : all) {
    if (one.path.empty() || one.is_ours || is_of_cuda(one.name)) continue;
    Traits of_library = read_object(one.path, **reader, told);
    traits.has_shared_runtime |= of_library.has_shared_runtime;
    traits.has_static_runtime |= of_library.has_static_runtime;
    traits.needed.merge(of_library.needed);
  }
  for (const NeededLibrary& one : all) {  // preloaded ones that nobody asked for are left out
    if ((one.path.empty() || is_of_cuda(one.name)) && traits.needed.erase(one.name) > 0) told.libraries.push_back(one);
  }
  told.runtime = runtime_word(traits);
  judge_libraries(told);
  for (const NeededKernel& kernel : told.kernels) {
    if (!kernel.why.empty())
      told.lacks.push_back(lack("kernels", fmt::format("{}: {}", kernel.name, kernel.why), kernel.file,
                                "docs/ptx-forms.md lists what is executed"));
  }
  told.notes.push_back("libraries and kernels that it loads while it runs (dlopen, NVRTC) are not seen");
  return told;
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = fmt::format("program    {}\nruntime    {}\n", explanation.program, explanation.runtime);
  for (const NeededLibrary& library : explanation.libraries) {
    const std::string where = library.path.empty() ? "NOT FOUND" : library.path;
    text += fmt::format("library    {}: {}\n", library.name, library.is_ours ? "the virtual GPU's" : where);
  }
  const auto runs = std::count_if(explanation.kernels.begin(), explanation.kernels.end(),
                                  [](const NeededKernel& kernel) { return kernel.why.empty(); });
  text += fmt::format("kernels    {} that can run, {} that cannot\n", runs,
                      static_cast<std::ptrdiff_t>(explanation.kernels.size()) - runs);
  for (const std::string& note : explanation.notes) text += "note       " + note + "\n";
  for (const Finding& finding : explanation.lacks) {
    text += fmt::format("MISSING    {}\n", finding.what);
    if (!finding.where.empty()) text += "           in " + finding.where + "\n";
    text += "           " + finding.fix + "\n";
  }
  return text;
}

}  // namespace flashmoe::workflow
