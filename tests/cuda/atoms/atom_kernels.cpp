#include "cuda/atoms/atom_kernels.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "cuda/kept_ptx.hpp"
#include "kernels/cuda/jit/sources.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::testing {
namespace {

std::vector<char> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " is not there");
  std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  text.push_back('\0');
  return text;
}

std::vector<char> compiled_by_nvrtc(const std::string& source) {
  const std::vector<char> text = file_text(in_sources("tests/cuda/atoms/" + source));
  std::vector<cuda::Source> sources = {{source.c_str(), text.data()}};
  for (const cuda::Source& one : cuda::device_sources()) sources.push_back(one);
  const std::vector<std::string> options = {"--std=c++20", "--device-as-default-execution-space",
                                            "--gpu-architecture=compute_80"};
  auto image = kept_ptx(source.c_str(), sources, options);
  if (!image) throw std::runtime_error(image.error().to_string());
  return std::move(*image);
}

}  // namespace

const Gpu& atoms_gpu() {
  static const Gpu only;
  return only;
}

runtime::Function atom_kernel(Compiler compiler, const std::string& source, const std::string& kernel) {
  const Gpu& gpu = atoms_gpu();  // before the modules, so that it is there when they are unloaded
  static std::map<std::pair<Compiler, std::string>, std::shared_ptr<runtime::Module>> modules;
  auto& module = modules[{compiler, source}];
  if (module == nullptr) {
    const std::vector<char> image = compiler == Compiler::nvcc
                                        ? file_text(in_build("tests/cuda/atoms/" + source + ".ptx"))
                                        : compiled_by_nvrtc(source);
    auto loaded = runtime::Module::load(gpu.device(), std::as_bytes(std::span(image)));
    if (!loaded) throw std::runtime_error(loaded.error().to_string());
    module = *loaded;
  }
  auto function = module->function(kernel);
  if (!function) throw std::runtime_error(function.error().to_string());
  return *function;
}

}  // namespace flashmoe::testing
