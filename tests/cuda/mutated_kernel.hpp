// A kernel with texts of its source replaced, compiled by NVRTC or as it was compiled before.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/gpu_run.hpp"
#include "cuda/kept_ptx.hpp"
#include "kernels/cuda/jit/jit.hpp"
#include "kernels/cuda/launch/instances.hpp"

namespace flashmoe::testing {

struct Mutation {
  const char* name;
  const char* file;  // of kernels/cuda/; null: none
  const char* from;
  const char* to;
  int place = all_places;  // in the file, from 0
  static constexpr int all_places = -1;
};

inline int places_of(const Mutation& mutation) {
  int count = 0;
  for (const cuda::Source& source : cuda::device_sources()) {
    if (source.name != std::string("kernels/cuda/") + mutation.file) continue;
    const std::string text = source.text;
    for (std::size_t at = 0; (at = text.find(mutation.from, at)) != std::string::npos; ++at) ++count;
  }
  return count;
}

// A text that is not there is an error, so that a mutation does not outlive the code it is about.
inline std::vector<char> mutated_image(const char* main_source, const std::vector<std::string>& options,
                                       std::span<const Mutation> mutations) {
  std::vector<std::string> texts;
  std::vector<cuda::Source> sources;
  texts.reserve(cuda::device_sources().size());
  for (const cuda::Source& source : cuda::device_sources()) texts.emplace_back(source.text);
  for (const Mutation& mutation : mutations) {
    if (mutation.file == nullptr) continue;
    if (places_of(mutation) == 0) throw std::runtime_error(std::string(mutation.name) + ": no such text");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (cuda::device_sources()[i].name != std::string("kernels/cuda/") + mutation.file) continue;
      std::string& text = texts[i];
      const std::string from = mutation.from, to = mutation.to;
      int place = 0;
      for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; ++place) {
        const bool is_meant = mutation.place == Mutation::all_places || mutation.place == place;
        if (is_meant) text.replace(at, from.size(), to);
        at += is_meant ? to.size() : from.size();
      }
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) sources.push_back({cuda::device_sources()[i].name, texts[i].c_str()});
  return must(kept_ptx(main_source, sources, options));
}

inline std::vector<char> mutated_kernel(const cuda::InstanceAxes& axes, std::span<const Mutation> mutations) {
  const std::string name = axes.name();
  const char* const tile_class = cuda::tile_class_names[static_cast<int>(axes.tile_class)];
  const auto options = cuda::compile_options({name.c_str(), "Half", axes.dim, tile_class, axes.is_paged,
                                              axes.is_modified, 0, cuda::any_driver, axes.value_dim},
                                             cuda::ImageKind::ptx);
  return mutated_image(cuda::main_source_name, options, mutations);
}

}  // namespace flashmoe::testing
