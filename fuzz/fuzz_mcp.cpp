// Bytes as the lines of a client of `cudadent mcp`; a line that begins with '>' is what the next command prints, '!'
// what it writes to stderr. The property: every line out is one message of the protocol, no request is answered twice,
// and no text that a model reads is longer than it may be.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "support/json_text.hpp"
#include "support/temporary_directory.hpp"
#include "support/text.hpp"
#include "workflow/mcp/server.hpp"

namespace {

using namespace flashmoe;
using namespace flashmoe::workflow::mcp;

[[noreturn]] void violated(const char* what, const std::string& line) {
  std::fprintf(stderr, "%s: %s\n", what, line.c_str());
  std::abort();
}

// What commands print and write in this run.
struct Printed {
  std::string out;
  std::string log;
};

class FuzzedChild : public Child {
 public:
  explicit FuzzedChild(const Printed& printed) : printed_(printed) {}
  bool has_ended() override { return ++asked_ > 1; }
  [[nodiscard]] const std::string& log() const override { return printed_.log; }
  Finished finished() override { return {.exit_code = 0, .out = printed_.out, .err = printed_.log}; }
  void ask_to_end() override {}

 private:
  Printed printed_;
  int asked_ = 0;
};

void check(const std::string& line, std::multiset<std::string>& open) {
  const Json message = parse_json(line);
  if (!message.is_object() || message["jsonrpc"] != "2.0" || line.find('\n') != std::string::npos) {
    violated("no message", line);
  }
  if (message.contains("method")) {
    if (message.contains("id")) violated("a request to the client", line);
    return;
  }
  if (message.contains("result") == message.contains("error")) violated("neither result nor error, or both", line);
  if (!message["id"].is_null()) {
    const auto found = open.find(one_line(message["id"]));
    if (found == open.end()) violated("an answer that nobody waits for", line);
    open.erase(found);
  }
  if (!message.contains("result") || !message["result"].contains("content")) return;
  for (const Json& content : message["result"]["content"]) {
    if (content["type"] == "text" && most_tokens_of(content["text"].get_ref<const std::string&>()) > most_text_tokens) {
      violated("too long a text", line);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TemporaryDirectory directory;
  static const std::string root = std::filesystem::canonical(directory.path()).string();
  Printed printed;
  Server server({.root = root, .version = "0"}, [&](const std::vector<std::string>&) -> Result<std::unique_ptr<Child>> {
    return std::unique_ptr<Child>(std::make_unique<FuzzedChild>(printed));
  });
  std::multiset<std::string> open;
  const auto look = [&] {
    server.tick();
    for (const std::string& line : server.take_output()) check(line, open);
  };
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with('>') || line.starts_with('!')) {
      (line[0] == '>' ? printed.out : printed.log) = std::string(line.substr(1)) + "\n";
      continue;
    }
    const Message message = read_message(line);
    if (!message.id.is_null() && message.kind != Message::Kind::response) open.insert(one_line(message.id));
    server.take_line(line);
    look();
  }
  look();
  server.end_of_input();
  look();
  return 0;
}
