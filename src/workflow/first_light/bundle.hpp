// What a first light leaves behind: a directory whose every file is listed with its SHA-256, so that whoever gets it
// can tell that it is whole and unchanged. Nothing in it is trusted that the list does not hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

inline constexpr const char* manifest_name = "MANIFEST.sha256";
inline constexpr const char* results_name = "results.json";

class Bundle {
 public:
  // Makes the directory, or goes on in one. Room for the list and the last words is set aside: a full disk must not
  // take them.
  [[nodiscard]] static Result<Bundle> open(const std::string& directory);
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // Whole or not at all: a file that did not fit is not there.
  [[nodiscard]] Result<Done> write(const std::string& name, const std::string& text) const;
  // Gives the room back that was set aside. What is written from here on may not fail for want of it.
  void use_reserve() const;
  // Lists all files; the answer is the list's own SHA-256, by which the bundle is known.
  [[nodiscard]] Result<std::string> seal() const;

 private:
  explicit Bundle(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
  std::shared_ptr<const int> lock_{};  // held while it lives: one first light a bundle
};

struct BundleCheck {
  std::string sha256{};                 // of the list
  std::size_t files = 0;                // that are as listed
  bool rehearsal = false;               // as its results say
  std::vector<std::string> problems{};  // "times.jsonl: changed", ...; none: it verifies
};

[[nodiscard]] Result<BundleCheck> verify_bundle(const std::string& directory);

}  // namespace flashmoe::workflow
