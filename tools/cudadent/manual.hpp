// --help as a manual page: NAME, SYNOPSIS, DESCRIPTION, OPTIONS, COMMANDS, EXAMPLES, EXIT STATUS.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace flashmoe::tools {

// Takes NAME from the command's description and the rest from its footer: the text up to a line "Examples:" is the
// DESCRIPTION, what follows are the EXAMPLES. Set it before commands are added: they inherit it.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> manual_formatter();

}  // namespace flashmoe::tools
