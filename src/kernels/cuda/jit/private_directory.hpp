// A directory of files that are code: nobody but this user, and root, can have put them there. Everything in it is
// reached through the open directory, so that exchanging it, or a directory above it, changes nothing.
#pragma once

#include <string>
#include <vector>

namespace flashmoe::cuda {

// A file descriptor that is closed once.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : descriptor_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int release();

 private:
  int descriptor_;
};

class PrivateDirectory {
 public:
  PrivateDirectory() = default;
  // Makes what is missing of `path`, for its owner alone, and opens it. A directory that is another user's, or that
  // others may write to, is not opened; nor is one behind another user's symbolic link.
  explicit PrivateDirectory(const std::string& path);

  [[nodiscard]] bool is_open() const { return directory_.is_open(); }
  // Who else could have put files there, in a sentence; empty when that is not why it is not open.
  [[nodiscard]] const std::string& why_not_trusted() const { return why_not_trusted_; }

  // As openat(2), and never through a symbolic link.
  [[nodiscard]] Descriptor open(const std::string& name, int flags, unsigned mode = 0) const;
  // As `open` for reading; nothing but a regular file that only this user or root may write.
  [[nodiscard]] Descriptor open_own(const std::string& name) const;
  // Whether `name` is the file behind the descriptor.
  [[nodiscard]] bool holds(const std::string& name, int descriptor) const;
  [[nodiscard]] bool rename(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;  // of the files; empty when it cannot be listed

 private:
  Descriptor directory_{};
  std::string why_not_trusted_{};
};

}  // namespace flashmoe::cuda
