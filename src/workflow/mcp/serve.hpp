// The server on standard input and output, until the input ends, the output is closed or a signal comes.
#pragma once

#include <string>

#include "support/result.hpp"
#include "workflow/mcp/server.hpp"

namespace flashmoe::workflow::mcp {

// `program` is this very program: what tools do, it does as a child. Returns when the client is gone.
[[nodiscard]] Result<Done> serve(const ServerOptions& options, const std::string& program);

}  // namespace flashmoe::workflow::mcp
