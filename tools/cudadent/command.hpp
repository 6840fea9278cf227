// A command as data: what it is called, what people read about it, its options, and what it does. What parses the
// command line is behind parse.hpp alone; a command's own file knows nothing of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace flashmoe::tools {

// Where the value goes; a bool is a flag.
using OptionValue =
    std::variant<bool*, int*, double*, std::uint64_t*, std::optional<double>*, std::optional<std::string>*,
                 std::optional<std::uint64_t>*, std::string*, std::vector<std::string>*>;

struct Option {
  std::string names;  // "--seed"; without dashes it is positional; "project,--project" is both
  OptionValue value;
  std::string about;
  bool required = false;
  bool shows_default = false;                        // in the manual
  std::optional<std::pair<double, double>> range{};  // of a number
  bool is_positive = false;
  bool is_directory = false;           // one that exists
  std::vector<std::string> choices{};  // the only words that are allowed
  std::string type_name{};             // in the manual; empty: by its type
  char separator = '\0';               // of a list in one word
  int count = 0;                       // of a list; 0: any
  std::string alternatives{};          // options with the same word here exclude one another
  std::string bare{};                  // of a text that may stand without a value: what it means then
};

struct Command {
  std::string name;
  std::string about;   // one line
  std::string manual;  // DESCRIPTION; after a line "Examples:" EXAMPLES
  std::vector<Option> options{};
  std::function<int()> run{};  // returns the exit code (workflow::ExitCode)
  bool is_hidden = false;
  bool takes_rest = false;       // everything behind the first word that is no option is the last positional's
  std::vector<Command> parts{};  // words that may follow the name, each a command of its own: "journal merge"
};

}  // namespace flashmoe::tools
