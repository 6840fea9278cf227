// collect_images TO TOOLKIT ARCHITECTURES FRAME ...: the images of all kernels as one file. A frame is named as its
// kernel is; architectures have commas between.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "kernels/cuda/launch/image_store.hpp"
#include "support/whole_file.hpp"

namespace {

std::vector<int> numbers(const std::string& text) {
  std::vector<int> found;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    int number = 0;
    at = std::from_chars(at, end, number).ptr;
    found.push_back(number);
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: collect_images TO TOOLKIT ARCHITECTURES FRAME ...\n", stderr);
    return 2;
  }
  std::vector<flashmoe::cuda::NamedFrame> images;
  for (int i = 4; i < argc; ++i) {
    auto frame = flashmoe::whole_file(argv[i]);
    if (!frame || frame->empty()) {
      std::fprintf(stderr, "collect_images: cannot read %s\n", argv[i]);
      return 1;
    }
    images.push_back({std::filesystem::path(argv[i]).stem().string(), std::move(*frame)});
  }
  const auto store = flashmoe::cuda::write_image_store(flashmoe::cuda::library_identity(), std::stoi(argv[2]),
                                                       numbers(argv[3]), images);
  if (!store) {
    std::fprintf(stderr, "collect_images: %s\n", store.error().to_string().c_str());
    return 1;
  }
  std::ofstream to(argv[1], std::ios::binary | std::ios::trunc);
  to.write(store->data(), static_cast<std::streamsize>(store->size()));
  to.close();
  if (!to) {
    std::fprintf(stderr, "collect_images: cannot write %s\n", argv[1]);
    return 1;
  }
  return 0;
}
