#include "parse.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "answer.hpp"
#include "manual.hpp"
#include "workflow/project/suggest.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

// CLI11's own checks, so that a refusal and the manual say the same.
void check_range(CLI::Option& made, const Option& option) {
  if (!option.range) return;
  const auto [least, most] = *option.range;
  if (std::holds_alternative<int*>(option.value)) {
    made.check(CLI::Range(static_cast<int>(least), static_cast<int>(most)));
  } else {
    made.check(CLI::Range(least, most));
  }
}

// CLI11's own names the largest double as the bound, in three hundred digits.
CLI::Validator positive_number() {
  return {[](const std::string& text) {
            double value = 0;
            return CLI::detail::lexical_cast(text, value) && value > 0 ? std::string()
                                                                       : text + " is not a number above 0";
          },
          "POSITIVE"};
}

CLI::Option* add_option(CLI::App& command, const Option& option) {
  CLI::Option* made = std::visit(
      [&](auto* value) {
        if constexpr (std::is_same_v<decltype(value), bool*>) {
          return command.add_flag(option.names, *value, option.about);
        } else if constexpr (std::is_same_v<decltype(value), std::string*>) {
          return option.bare.empty() ? command.add_option(option.names, *value, option.about)
                                     : command.add_flag(option.names + "{" + option.bare + "}", *value, option.about);
        } else {
          return command.add_option(option.names, *value, option.about);
        }
      },
      option.value);
  if (option.required) made->required();
  check_range(*made, option);
  if (option.is_positive) made->check(positive_number());
  if (option.is_directory) made->check(CLI::ExistingDirectory);
  if (!option.choices.empty()) made->check(CLI::IsMember(option.choices));
  if (option.separator != '\0') made->delimiter(option.separator);
  if (option.count > 0) made->expected(option.count);
  if (!option.type_name.empty()) made->type_name(option.type_name);
  if (option.shows_default) made->capture_default_str();
  return made;
}

void add_command(CLI::App& app, const Command& command, int& exit_code) {
  CLI::App* made = app.add_subcommand(command.name, command.about);
  made->footer(command.manual);
  if (command.is_hidden) made->group("");
  std::map<std::string, std::vector<CLI::Option*>> alternatives;
  for (const Option& option : command.options) {
    CLI::Option* added = add_option(*made, option);
    if (option.alternatives.empty()) continue;
    for (CLI::Option* other : alternatives[option.alternatives]) added->excludes(other);
    alternatives[option.alternatives].push_back(added);
  }
  if (command.takes_rest) made->positionals_at_end();
  for (const Command& part : command.parts) add_command(*made, part, exit_code);
  made->callback([run = command.run, made, &exit_code] {
    if (made->get_subcommands().empty()) exit_code = run();
  });
}

// A word that is no command or flag, with the nearest one that is.
Diagnostic explanation(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool is_no_command = !words.empty() && !words[0].starts_with("-") &&
                             std::none_of(commands.begin(), commands.end(),
                                          [&](const CLI::App* command) { return command->get_name() == words[0]; });
  Diagnostic problem{.message = is_no_command ? "there is no command '" + words[0] + "'" : std::string(error.what()),
                     .code = workflow::codes::usage_command_line};
  const CLI::App* at = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    std::vector<std::string> known;
    for (const CLI::App* command : at->get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
      known.push_back(command->get_name());
      if (command->get_name() != word) continue;
      at = command;
      path += " " + word;
    }
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& flag : option->get_lnames()) known.push_back("--" + flag);
    }
    const std::string flag = word.substr(0, word.find('='));
    const std::string near = workflow::nearest(flag, known);
    if (!near.empty() && near != flag) problem.fix += "did you mean '" + near + "'? ";
  }
  problem.fix += "see: " + path + " --help";
  return problem;
}

// Also where the words are no command line: who asks for JSON gets JSON.
JsonFlag json_asked_for(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "--json") return {"full"};
    if (word.starts_with("--json=")) return {"short"};
  }
  return {};
}

}  // namespace

int run_command_line(const Program& program, const std::vector<Command>& commands, int argc, char** argv) {
  CLI::App app{program.about, program.name};
  app.formatter(manual_formatter());
  app.footer(program.manual);
  app.set_version_flag("--version", program.version, "Print the version");
  app.require_subcommand(0, 1);
  int exit_code = 0;
  for (const Command& command : commands) add_command(app, command, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::vector<std::string> words{argv + 1, argv + argc};
    const auto named = std::find_if(commands.begin(), commands.end(),
                                    [&](const Command& command) { return !words.empty() && command.name == words[0]; });
    return fail(named == commands.end() ? "" : named->name, json_asked_for(words), explanation(app, error, words));
  }
  if (!app.get_subcommands().empty()) return exit_code;
  const auto bare =
      std::find_if(commands.begin(), commands.end(), [&](const Command& one) { return one.name == program.bare; });
  return bare == commands.end() ? static_cast<int>(workflow::ExitCode::usage) : bare->run();
}

}  // namespace flashmoe::tools
