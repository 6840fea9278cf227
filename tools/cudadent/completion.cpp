// cudadent completion: a shell's completion script, made from the commands and flags themselves.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Word {
  std::string text;
  std::string about;
};

struct CommandWords {
  Word name;
  std::vector<Word> flags;
};

// The long ones, in the order of the manual, which begins with the one every command has.
std::vector<Word> flags_of(const Command& command) {
  std::vector<Word> flags{{"--help", "Print this help message and exit"}};
  for (const Command& part : command.parts) flags.push_back({part.name, part.about});
  for (const Option& option : command.options) {
    const std::size_t dashes = option.names.find("--");
    if (dashes != std::string::npos) flags.push_back({option.names.substr(dashes), option.about});
  }
  return flags;
}

std::vector<CommandWords> command_words() {
  std::vector<CommandWords> words;
  for (const Command& command : all_commands()) {
    if (!command.is_hidden) words.push_back({{command.name, command.about}, flags_of(command)});
  }
  return words;
}

std::string texts(const std::vector<Word>& words) {
  std::string out;
  for (const Word& word : words) out += (out.empty() ? "" : " ") + word.text;
  return out;
}

std::string bash(const std::vector<CommandWords>& commands) {
  std::string names;
  std::string cases;
  for (const CommandWords& command : commands) {
    names += (names.empty() ? "" : " ") + command.name.text;
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name.text, texts(command.flags));
  }
  return fmt::format(
      "# bash completion of cudadent: source <(cudadent completion bash)\n"
      "_cudadent() {{\n"
      "  local words=\"{} --help --version\" current=\"${{COMP_WORDS[COMP_CWORD]}}\"\n"
      "  [[ $COMP_CWORD -gt 1 ]] && case \"${{COMP_WORDS[1]}}\" in\n{}    *) words= ;;\n  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  [[ $current == -* || $COMP_CWORD -eq 1 ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "}}\n"
      "complete -o filenames -F _cudadent cudadent\n",
      names, cases);
}

// Inside single quotes of zsh and fish.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + out + "'";
}

std::string zsh_word(const Word& word) {
  std::string about;
  for (const char c : word.about) about += c == ':' ? std::string("\\:") : std::string(1, c);
  return quoted(word.text + ":" + about);
}

std::string zsh(const std::vector<CommandWords>& commands) {
  std::string names;
  std::string cases;
  for (const CommandWords& command : commands) {
    names += "    " + zsh_word(command.name) + "\n";
    cases += fmt::format("    {}) choices=(\n", command.name.text);
    for (const Word& flag : command.flags) cases += "      " + zsh_word(flag) + "\n";
    cases += "    ) ;;\n";
  }
  return fmt::format(
      "#compdef cudadent\n"
      "# zsh completion of cudadent: source <(cudadent completion zsh)\n"
      "_cudadent() {{\n"
      "  local -a choices=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe command choices; return; fi\n"
      "  case $words[2] in\n{}    *) choices=() ;;\n  esac\n"
      "  _describe option choices\n"
      "  _files\n"
      "}}\n"
      "compdef _cudadent cudadent\n",
      names, cases);
}

std::string fish(const std::vector<CommandWords>& commands) {
  std::string out = "# fish completion of cudadent: cudadent completion fish | source\n";
  for (const CommandWords& command : commands) {
    out += fmt::format("complete -c cudadent -n __fish_use_subcommand -f -a {} -d {}\n", command.name.text,
                       quoted(command.name.about));
    for (const Word& flag : command.flags) {
      const bool is_flag = flag.text.starts_with("--");
      out += fmt::format("complete -c cudadent -n '__fish_seen_subcommand_from {}' {} {} -d {}\n", command.name.text,
                         is_flag ? "-l" : "-a", flag.text.substr(is_flag ? 2 : 0), quoted(flag.about));
    }
  }
  return out;
}

struct Flags {
  std::string shell;
  JsonFlag json;
};

int run(const Flags& flags) {
  const std::vector<CommandWords> words = command_words();
  const std::string script = flags.shell == "bash" ? bash(words) : flags.shell == "zsh" ? zsh(words) : fish(words);
  const std::string next =
      flags.shell == "fish" ? "cudadent completion fish | source" : "source <(cudadent completion " + flags.shell + ")";
  std::fputs(
      (flags.json ? workflow::completion_json(answer_of("completion", flags.json, 0, "", next), flags.shell, script)
                  : script)
          .c_str(),
      stdout);
  return 0;
}

constexpr const char* manual = R"(Examples:
  source <(cudadent completion bash)         now; put the line into ~/.bashrc to keep it
  source <(cudadent completion zsh)
  cudadent completion fish | source)";

}  // namespace

Command completion_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "completion",
          .about = "Print a completion script for your shell",
          .manual = manual,
          .options = {{.names = "SHELL",
                       .value = &flags->shell,
                       .about = "bash, zsh or fish",
                       .required = true,
                       .choices = {"bash", "zsh", "fish"}},
                      json_option(flags->json, "The script in JSON on stdout")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
