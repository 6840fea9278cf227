#include "workflow/mcp/serve.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "support/process.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow::mcp {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t longest_line = std::size_t{1} << 20;
constexpr milliseconds look_every{50};  // at children, while there are any
constexpr milliseconds grace_to_end{500};

// A cudadent that answers in JSON on its stdout and tells progress on its stderr.
class CommandChild : public Child {
 public:
  explicit CommandChild(Conversation talk) : talk_(std::move(talk)) {}
  ~CommandChild() override {
    if (talk_.ends_within(milliseconds(0))) return;
    talk_.ask_to_end();  // it removes its worktrees and notes what it had measured; what is left then is killed
    static_cast<void>(talk_.ends_within(grace_to_end));
  }
  CommandChild(const CommandChild&) = delete;
  CommandChild& operator=(const CommandChild&) = delete;

  bool has_ended() override { return talk_.ends_within(milliseconds(0)); }
  [[nodiscard]] const std::string& log() const override { return talk_.finished().err; }
  Finished finished() override { return talk_.stop(); }
  void ask_to_end() override { talk_.ask_to_end(); }

 private:
  Conversation talk_;
};

// Lines from a file descriptor; one that is too long is counted and thrown away, not kept.
class Lines {
 public:
  // False at the end of the input.
  [[nodiscard]] bool read_some(int fd, Server& server) {
    std::array<char, 65536> chunk;
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) {
      if (!line_.empty() && !is_too_long_) server.take_line(line_);
      return false;
    }
    std::string_view rest(chunk.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      add(rest.substr(0, end), server);
      if (end == std::string_view::npos) break;
      if (!is_too_long_) server.take_line(line_);
      line_.clear();
      is_too_long_ = false;
      rest.remove_prefix(end + 1);
    }
    return true;
  }

 private:
  void add(std::string_view part, Server& server) {
    if (is_too_long_) return;
    if (line_.size() + part.size() <= longest_line) {
      line_ += part;
      return;
    }
    is_too_long_ = true;
    line_.clear();
    server.take_too_long_line();
  }

  std::string line_;
  bool is_too_long_ = false;
};

// False: nobody reads any more.
bool write_all(int fd, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::string whole = line + "\n";
    for (std::size_t sent = 0; sent < whole.size();) {
      const ssize_t put = ::write(fd, whole.data() + sent, whole.size() - sent);
      if (put < 0 && errno == EINTR && !interrupted()) continue;
      if (put <= 0) return false;
      sent += static_cast<std::size_t>(put);
    }
  }
  return true;
}

Launch launcher(const std::string& program, const std::string& root) {
  return [program, root](const std::vector<std::string>& command_line) -> Result<std::unique_ptr<Child>> {
    Command command;
    command.argv = {program};
    command.argv.insert(command.argv.end(), command_line.begin(), command_line.end());
    command.directory = root;
    command.environment = {"NO_COLOR=1", "CUDADENT_HEARTBEAT_SECONDS=2"};
    auto talk = Conversation::start(command);
    if (!talk) return talk.error();
    return std::unique_ptr<Child>(std::make_unique<CommandChild>(std::move(*talk)));
  };
}

}  // namespace

Result<Done> serve(const ServerOptions& options, const std::string& program) {
  // Whatever else prints to stdout goes to stderr: the protocol has the stream for itself.
  const int out = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (out < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return Diagnostic{.message = std::string("no standard output: ") + std::strerror(errno),
                      .fix = "let a client start cudadent mcp, with pipes for input and output",
                      .code = codes::could_not_run};
  }
  Server server(options, launcher(program, options.root));
  Lines lines;
  bool is_open = true;
  while (is_open && !interrupted()) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int timeout = server.is_busy() ? static_cast<int>(look_every.count()) : -1;
    if (::poll(&input, 1, timeout) < 0 && errno != EINTR) break;
    if (input.revents != 0) is_open = lines.read_some(STDIN_FILENO, server);
    server.tick();
    if (!write_all(out, server.take_output())) break;
  }
  server.end_of_input();
  static_cast<void>(write_all(out, server.take_output()));
  ::close(out);
  return Done{};
}

}  // namespace flashmoe::workflow::mcp
