// The Model Context Protocol over lines: requests in, answers out, no input or output of its own. Both generations are
// spoken at once: a request that carries its protocol version in `_meta` is answered by that alone (2026-07-28); others
// want the handshake first (2025-06-18, 2025-11-25).
#pragma once

#include <chrono>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "support/json.hpp"
#include "workflow/mcp/jobs.hpp"
#include "workflow/mcp/message.hpp"

namespace flashmoe::workflow::mcp {

struct ServerOptions {
  std::string root{};  // canonical; no project outside of it is touched
  std::string version{};
  std::chrono::milliseconds answer_within{40'000};
};

class Server {
 public:
  Server(ServerOptions options, Launch launch) : options_(std::move(options)), jobs_(std::move(launch)) {}

  void take_line(std::string_view line);
  void take_too_long_line();
  // Looks at what jobs have come to, answers calls and tells progress.
  void tick();
  [[nodiscard]] bool is_busy() const { return jobs_.is_busy() || !calls_.empty(); }
  // Every call under way is answered, and every job ended.
  void end_of_input();
  // Lines to write since it was last asked.
  [[nodiscard]] std::vector<std::string> take_output();

 private:
  // A request that is not answered yet.
  struct Call {
    Json id;
    bool is_modern = false;
    std::string job{};
    bool began_it = false;     // cancelling the call ends the job
    std::string record_uri{};  // resources/read of a record; empty: tools/call
    Json progress_token{};
    double progress_told = -1;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point progress_told_at{};
  };

  void request(const Message& message);
  void notification(const Message& message);
  // False: it was answered with an error.
  [[nodiscard]] bool settle_era(const Message& message, bool& is_modern);
  void initialize(const Message& message);
  void discover(const Message& message);
  void list_tools(const Message& message, bool is_modern);
  void call_tool(const Message& message, bool is_modern);
  void list_resources(const Message& message, bool is_modern);
  void list_templates(const Message& message, bool is_modern);
  void read_resource(const Message& message, bool is_modern);
  void read_record(const Message& message, bool is_modern, const std::string& uri);
  void listen(const Message& message);

  void wait_for(const Message& message, bool is_modern, Job& job, bool began_it, const std::string& record_uri = {});
  // True: it was answered.
  [[nodiscard]] bool answer_if_done(const Call& call);
  void tell_progress(Call& call, const Job& job);
  void answer(const Json& id, bool is_modern, Json result);
  void answer_cacheable(const Json& id, bool is_modern, Json result, int seconds);
  void answer_contents(const Json& id, bool is_modern, const std::string& uri, const char* type,
                       const std::string& text);
  void refuse(const Json& id, int code, const std::string& problem, const Json& data = {});
  [[nodiscard]] std::vector<Link> links_of(const Job& job) const;
  [[nodiscard]] std::string record_uri(const Job& job) const;
  [[nodiscard]] Json server_info() const;

  ServerOptions options_;
  Jobs jobs_;
  std::string handshake_version_{};  // empty: no handshake yet
  std::list<Call> calls_;
  std::vector<Json> listeners_;  // ids of subscriptions/listen
  std::vector<std::string> output_;
};

}  // namespace flashmoe::workflow::mcp
