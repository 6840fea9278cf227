#include "manual.hpp"

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace flashmoe::tools {
namespace {

constexpr const char* exit_status =
    "0  it holds\n"
    "1  the kernel does not hold\n"
    "2  the command line or cudadent.toml is wrong\n"
    "3  inconclusive, degraded or interrupted\n"
    "4  it could not run: the machine, a tool or a file";

// Lines of an indented section; empty ones stay empty.
std::string section(const std::string& title, const std::string& text) {
  if (text.empty()) return "";
  std::string out = title + "\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += line.empty() ? "\n" : "  " + line + "\n";
  return out + "\n";
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.find_first_not_of('\n') == std::string::npos ? text.size() : text.find_first_not_of('\n'));
  return text;
}

// Every line without its first two blanks: examples are written indented below their heading.
std::string outdented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += (line.rfind("  ", 0) == 0 ? line.substr(2) : line) + "\n";
  return trimmed(out);
}

class Manual : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
    const std::string footer = app->get_footer();
    const std::string heading = "Examples:\n";
    const std::size_t examples = footer.find(heading);
    std::string out = section("NAME", name + " - " + app->get_description());
    out += section("SYNOPSIS", synopsis(app, name));
    out += section("DESCRIPTION", trimmed(footer.substr(0, examples)));
    out += section("ARGUMENTS", listed(app, true));
    out += section("OPTIONS", listed(app, false));
    out += section("COMMANDS", commands(app));
    if (examples != std::string::npos) out += section("EXAMPLES", outdented(footer.substr(examples + heading.size())));
    return out + trimmed(section("EXIT STATUS", exit_status)) + "\n";
  }

 private:
  std::string synopsis(const CLI::App* app, const std::string& name) const {
    std::string out = name + " [OPTIONS]";
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) out += " " + make_option_usage(option);
    }
    if (!visible_commands(app).empty()) out += app->get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
    return out;
  }

  static std::vector<const CLI::App*> visible_commands(const CLI::App* app) {
    return app->get_subcommands([](const CLI::App* c) { return !c->get_name().empty() && !c->get_group().empty(); });
  }

  static std::string commands(const CLI::App* app) {
    std::string out;
    for (const CLI::App* command : visible_commands(app)) {
      out += padded(command->get_name(), 14) + command->get_description() + "\n";
    }
    return out;
  }

  std::string listed(const CLI::App* app, bool positional) const {
    std::string out;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group().empty() || option->get_positional() != positional) continue;
      std::string name = make_option_name(option, positional);
      const std::size_t bare = name.find('{');
      if (bare != std::string::npos) {
        name = name.substr(0, bare) + "[=short]";  // the one option whose value may be left out
      } else if (!positional && option->get_type_size() != 0) {
        name += " " + option->get_type_name();
      }
      std::string text = option->get_description();
      if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
      out += name + "\n    " + text + "\n";
    }
    return trimmed(out);
  }

  static std::string padded(const std::string& text, std::size_t width) {
    return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> manual_formatter() {
  return std::make_shared<Manual>();
}

}  // namespace flashmoe::tools
