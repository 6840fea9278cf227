#include "parse.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>

#include "manual.hpp"
#include "workflow/project/suggest.hpp"

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

CLI::Option* add_option(CLI::App& command, const Option& option) {
  CLI::Option* made = std::visit(
      [&](auto* value) {
        if constexpr (std::is_same_v<decltype(value), bool*>) {
          return command.add_flag(option.names, *value, option.about);
        } else {
          return command.add_option(option.names, *value, option.about);
        }
      },
      option.value);
  if (option.required) made->required();
  check_range(*made, option);
  if (option.is_positive) made->check(CLI::PositiveNumber);
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
  made->callback([run = command.run, &exit_code] { exit_code = run(); });
}

// A word that is no command or flag, with the nearest one that is.
void explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool is_no_command = !words.empty() && !words[0].starts_with("-") &&
                             std::none_of(commands.begin(), commands.end(),
                                          [&](const CLI::App* command) { return command->get_name() == words[0]; });
  const std::string name = app.get_name();
  if (is_no_command) {
    std::fprintf(stderr, "%s: there is no command '%s'\n", name.c_str(), words[0].c_str());
  } else {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
  }
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    std::vector<std::string> known;
    for (const CLI::App* command : at->get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
      known.push_back(command->get_name());
      if (command->get_name() == word) at = command;
    }
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& flag : option->get_lnames()) known.push_back("--" + flag);
    }
    const std::string flag = word.substr(0, word.find('='));
    const std::string near = workflow::nearest(flag, known);
    if (!near.empty() && near != flag) std::fprintf(stderr, "  did you mean '%s'?\n", near.c_str());
  }
  std::fprintf(stderr, "  see: %s %s%s--help\n", name.c_str(), at == &app ? "" : at->get_name().c_str(),
               at == &app ? "" : " ");
}

}  // namespace

int run_command_line(const Program& program, const std::vector<Command>& commands, int argc, char** argv) {
  CLI::App app{program.about, program.name};
  app.formatter(manual_formatter());
  app.footer(program.manual);
  app.set_version_flag("--version", program.version, "Print the version");
  app.require_subcommand(1);
  int exit_code = 0;
  for (const Command& command : commands) add_command(app, command, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    explain(app, error, {argv + 1, argv + argc});
    return 2;
  }
  return exit_code;
}

}  // namespace flashmoe::tools
