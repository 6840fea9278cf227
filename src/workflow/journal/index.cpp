#include "workflow/journal/index.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/whole_file.hpp"
#include "workflow/journal/writer.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::string_view magic = "cudadent index 1\n";

// ---- bytes: numbers as they lie in memory, texts behind their length; the file never leaves this machine ---------

class Bytes {
 public:
  template <class Number>
  void number(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::uint32_t>(value.size()));
    text_ += value;
  }
  [[nodiscard]] std::string& whole() { return text_; }

 private:
  std::string text_{magic};
};

// What is too short reads as nothing, and whole() says so.
class ByteReader {
 public:
  explicit ByteReader(std::string_view text) : rest_(text) {
    good_ = rest_.starts_with(magic);
    if (good_) rest_.remove_prefix(magic.size());
  }
  template <class Number>
  void number(Number& value) {
    if (const char* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
  }
  void text(std::string& value) {
    std::uint32_t length = 0;
    number(length);
    if (const char* from = take(length)) value.assign(from, length);
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool whole() const { return good_ && rest_.empty(); }

 private:
  const char* take(std::size_t count) {
    good_ = good_ && count <= rest_.size();
    if (!good_) return nullptr;
    const char* from = rest_.data();
    rest_.remove_prefix(count);
    return from;
  }
  std::string_view rest_;
  bool good_ = false;
};

void write(Bytes& to, const Heading& heading) {
  to.number(heading.offset);
  to.number(heading.length);
  to.number(heading.seconds);
  to.number(heading.dollars);
  to.number(heading.dirty);
  to.number(heading.chain.has_value());
  to.number(heading.commit.has_value());
  for (const std::string* text : {&heading.sha256, &heading.id, &heading.kind, &heading.time, &heading.run,
                                  &heading.project, &heading.device, &heading.verdict, &heading.detail})
    to.text(*text);
  if (heading.commit) to.text(*heading.commit);
  if (!heading.chain) return;
  to.text(heading.chain->writer);
  to.number(heading.chain->sequence);
  to.text(heading.chain->previous);
}

void read(ByteReader& from, Heading& heading) {
  bool chained = false, committed = false;
  from.number(heading.offset);
  from.number(heading.length);
  from.number(heading.seconds);
  from.number(heading.dollars);
  from.number(heading.dirty);
  from.number(chained);
  from.number(committed);
  for (std::string* text : {&heading.sha256, &heading.id, &heading.kind, &heading.time, &heading.run, &heading.project,
                            &heading.device, &heading.verdict, &heading.detail})
    from.text(*text);
  if (committed) from.text(heading.commit.emplace());
  if (!chained) return;
  Chain& chain = heading.chain.emplace();
  from.text(chain.writer);
  from.number(chain.sequence);
  from.text(chain.previous);
}

std::string bytes_of(const Index& index) {
  Bytes bytes;
  bytes.number(index.covered);
  bytes.number(index.damaged);
  bytes.number(static_cast<std::uint64_t>(index.headings.size()));
  for (const Heading& heading : index.headings) write(bytes, heading);
  return std::move(bytes.whole());
}

std::optional<Index> index_from(std::string_view bytes) {
  ByteReader reader(bytes);
  Index index;
  std::uint64_t count = 0;
  reader.number(index.covered);
  reader.number(index.damaged);
  reader.number(count);
  index.headings.reserve(std::min<std::uint64_t>(count, bytes.size()));
  for (std::uint64_t i = 0; i < count && reader.good(); ++i) read(reader, index.headings.emplace_back());
  return reader.whole() ? std::optional(std::move(index)) : std::nullopt;
}

// ---- the seal: which index is good, and for which state of the file -----------------------------------------------

struct Seal {
  FileStamp left{};
  std::string index_sha256{};
};

std::string index_file(const std::string& journal) {
  return state_file(journal, ".index");
}

std::string seal_file(const std::string& journal) {
  return state_file(journal, ".seal");
}

Json to_json(const FileStamp& stamp) {
  return {stamp.device, stamp.inode, stamp.size, stamp.modified_ns, stamp.changed_ns};
}

std::optional<Seal> seal_of(const std::string& journal) {
  const std::string path = seal_file(journal);
  const auto text = path.empty() ? std::nullopt : whole_file(path);
  if (!text) return std::nullopt;
  const Json json = bounded_json(*text);
  const Json& left = list_in(json, "left");
  const bool reads = left.size() == 5 && std::all_of(left.begin(), left.end(),
                                                     [](const Json& number) { return number.is_number_unsigned(); });
  if (!reads || text_in(json, "journal") != journal) return std::nullopt;
  return Seal{
      .left = {.device = left[0], .inode = left[1], .size = left[2], .modified_ns = left[3], .changed_ns = left[4]},
      .index_sha256 = text_in(json, "index")};
}

void store(const std::string& journal, const Seal& seal) {
  const Json json = {{"journal", journal}, {"left", to_json(seal.left)}, {"index", seal.index_sha256}};
  replace_file(seal_file(journal), one_line(json) + "\n");
}

}  // namespace

std::optional<Index> sealed_index(const std::string& journal, const FileStamp& now) {
  const auto seal = seal_of(journal);
  if (!seal || seal->left != now) return std::nullopt;
  const auto bytes = read_part(index_file(journal), 0, std::numeric_limits<std::uint64_t>::max());
  if (!bytes || sha256_hex(*bytes) != seal->index_sha256) return std::nullopt;
  auto index = index_from(*bytes);
  if (!index || index->covered > now.size) return std::nullopt;
  return index;
}

void seal_index(const std::string& journal, const Index& index, const FileStamp& now) {
  break_seal(journal);
  const std::string bytes = bytes_of(index);
  if (replace_file(index_file(journal), bytes)) store(journal, {.left = now, .index_sha256 = sha256_hex(bytes)});
}

void move_seal(const std::string& journal, const FileStamp& before, const FileStamp& after) {
  auto seal = seal_of(journal);
  if (!seal || seal->left != before) return;
  seal->left = after;
  store(journal, *seal);
}

void break_seal(const std::string& journal) {
  std::error_code ignored;
  if (const std::string path = seal_file(journal); !path.empty()) std::filesystem::remove(path, ignored);
}

}  // namespace flashmoe::workflow
