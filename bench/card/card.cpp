#include "card.hpp"

#include <iostream>
#include <stdexcept>

#include "cuda/gpu_run.hpp"
#include "images/fatbin.hpp"
#include "support/sha256.hpp"

namespace flashmoe::card {

using runtime::cuda::DeviceAttribute;
using testing::must;

namespace {

testing::Context library_context() {
  fms_context_options options{};
  options.struct_size = sizeof options;
  options.device_kind = FMS_DEVICE_CUDA;
  fms_context* made = nullptr;
  fms_error error{};
  if (fms_context_create(&options, &made, &error) != FMS_OK) throw std::runtime_error(testing::to_string(error));
  return testing::Context(made);
}

// As the driver chooses: the highest cubin of the same generation that is not above the GPU, else the highest PTX
// (CUDA C++ Programming Guide, binary compatibility).
const FatbinEntry* taken_by(const std::vector<FatbinEntry>& entries, int architecture) {
  const FatbinEntry* cubin = nullptr;
  const FatbinEntry* ptx = nullptr;
  for (const FatbinEntry& one : entries) {
    if (one.sm > architecture) continue;
    if (one.kind == FatbinEntry::Kind::cubin && one.sm / 10 == architecture / 10 &&
        (cubin == nullptr || one.sm > cubin->sm))
      cubin = &one;
    if (one.kind == FatbinEntry::Kind::ptx && (ptx == nullptr || one.sm > ptx->sm)) ptx = &one;
  }
  return cubin != nullptr ? cubin : ptx;
}

}  // namespace

Card::Card()
    : driver_(must(runtime::Driver::open(runtime::system_driver_library()))),
      device_(must(runtime::Context::create(driver_))),
      current_(std::make_unique<runtime::Context::Current>(*device_)),
      library_(library_context()) {}

int Card::attribute(DeviceAttribute attribute) const {
  return must(device_->attribute(attribute));
}

int Card::architecture() const {
  return 10 * attribute(DeviceAttribute::compute_capability_major) +
         attribute(DeviceAttribute::compute_capability_minor);
}

Line Card::description() const {
  return {{"card", device_->device_name()},
          {"architecture", architecture()},
          {"sms", attribute(DeviceAttribute::multiprocessor_count)},
          {"driver", driver_->version()},
          {"library", fms_version()}};
}

void Card::name_kernel(const fms_attention_plan& plan, Line& line) const {
  fms_kernel_image image{};
  image.struct_size = sizeof image;
  fms_error error{};
  if (fms_attention_image(library_.get(), &plan, &image, &error) != FMS_OK)
    throw std::runtime_error(testing::to_string(error));
  line["kernel"] = image.kernel;
  if (image.image == nullptr) {
    line["image"] = "compiled by NVRTC";
    return;
  }
  const auto entries = must(read_fatbin({static_cast<const std::byte*>(image.image), image.bytes}));
  const FatbinEntry* const taken = taken_by(entries, architecture());
  if (taken == nullptr) throw std::runtime_error(std::string("no image of ") + image.kernel + " is for this GPU");
  const bool is_cubin = taken->kind == FatbinEntry::Kind::cubin;
  line["image"] = (is_cubin ? "cubin, sm_" : "PTX, compute_") + std::to_string(taken->sm);
  line["image_sha256"] = sha256_hex(taken->bytes);
}

void Card::say(Line line) const {
  line["rehearsal"] = is_virtual();
  std::cout << line.dump() << std::endl;
}

bool Limit::allows(const std::string& problem) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  if (!seconds_ || passed.count() < *seconds_) return true;
  left_out_.push_back(problem);
  return false;
}

bool Limit::conclude(const Card& card) const {
  if (left_out_.empty()) return true;
  card.say({{"left_out", left_out_}, {"why", "--limit"}, {"limit_s", *seconds_}});
  return false;
}

}  // namespace flashmoe::card
