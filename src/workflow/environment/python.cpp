// Python, NumPy, torch and our own extension, each looked at in a child with a time limit: an import may crash or hang.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <sstream>

#include "support/process.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/compile/json_text.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

// Answers in one line of JSON. An import that fails is described by the attributes of the exception.
constexpr const char* probe_script = R"(
import importlib.metadata as metadata, importlib.util as util, json, os, platform, sys

def attempt(name):
    spec = util.find_spec(name)
    if spec is None:
        return {"installed": False}
    places = list(spec.submodule_search_locations or [])
    found = {"installed": True, "directory": places[0] if places else None}
    try:
        module = __import__(name)
        found["version"] = str(getattr(module, "__version__", ""))
        found["loads"] = True
        return found, module
    except BaseException as error:
        found["loads"] = False
        found["error"] = type(error).__name__ + ": " + str(error)
        found["module"] = getattr(error, "name", None)
        found["path"] = getattr(error, "path", None)
        return found, None

def answer(result):
    return result if isinstance(result, dict) else result[0]

def basic():
    out = {"version": platform.python_version(), "executable": sys.executable}
    out["numpy"] = answer(attempt("numpy"))
    os.environ["FLASHMOE_SCIENCE_NO_TORCH"] = "1"
    extension = attempt("flashmoe_science")
    out["extension"] = answer(extension)
    if not isinstance(extension, dict) and extension[1] is not None:
        core = extension[1]._C
        out["extension"]["file"] = core.__file__
        out["extension"]["functions"] = [n for n in ("attention", "flash_attention_forward") if hasattr(core, n)]
    out["flashmoe_owners"] = sorted(set(metadata.packages_distributions().get("flashmoe", [])))
    try:
        out["torch_version"] = metadata.version("torch")
    except metadata.PackageNotFoundError:
        out["torch_version"] = None
    return out

def torch():
    result = attempt("torch")
    out = answer(result)
    if not isinstance(result, dict) and result[1] is not None:
        out["cuda"] = result[1].version.cuda
    return out

print(json.dumps({"basic": basic, "torch": torch}[sys.argv[1]]()))
)";

struct Answer {
  Json json;
  std::string trouble{};  // why there is none
  bool timed_out = false;
};

Answer ask(const std::string& python, const char* what, double limit_seconds) {
  const auto ran = run_process({.argv = {python, "-c", probe_script, what},
                                .limit = std::chrono::milliseconds(static_cast<long>(limit_seconds * 1000))});
  if (!ran) return {nullptr, ran.error().message};
  // The answer is the last line: a site may greet on stdout.
  std::istringstream lines(ran->out);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  Json json = Json::parse(last, nullptr, false);
  if (json.is_object()) return {std::move(json), {}};
  return {nullptr, ran->describe() + (ran->err.empty() ? "" : "\n" + ran->err), ran->timed_out};
}

Json part_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

bool flag(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

void examine_package(const char* name, const std::string& python, const Json& package, Need need, Observations& seen) {
  const std::string pip = python + " -m pip install ";
  if (!flag(package, "installed")) {
    seen.warn("python", fmt::format("{} is not installed for {}", name, python), pip + name, need);
    return;
  }
  if (flag(package, "loads")) {
    seen.ok("python", fmt::format("{} {}", name, text_in(package, "version")), need);
    return;
  }
  const std::string error = fmt::format("{} does not import: {}", name, text_in(package, "error"));
  if (const std::string directory = text_in(package, "directory"); !directory.empty())
    if (const auto missing = missing_libraries(directory); !missing.empty()) {
      const std::string command = package_of_library(missing.front().soname);
      std::string fix = command.empty() ? fmt::format("install what brings {}, or reinstall: {}--force-reinstall {}",
                                                      missing.front().soname, pip, name)
                                        : command;
      if (fix.rfind("pip install ", 0) == 0) fix = pip + fix.substr(12);
      seen.warn(
          "python",
          fmt::format("{}; {} needs {}, which is nowhere", error, missing.front().wanted_by, missing.front().soname),
          fix, need);
      return;
    }
  const std::string module = text_in(package, "module");
  const std::string top = module.substr(0, module.find('.'));
  seen.warn("python", error, pip + (top.empty() || top == name ? "--force-reinstall " + std::string(name) : top), need);
}

void examine_extension(const Json& basic, const std::string& python, Observations& seen) {
  const Json extension = part_of(basic, "extension");
  const char* fix = " -m pip install .   (in the source tree)";
  if (!flag(extension, "installed")) {
    seen.warn("python", "our extension flashmoe_science is not installed for " + python, python + fix);
  } else if (!flag(extension, "loads")) {
    seen.warn("python", "our extension does not load: " + text_in(extension, "error"), python + fix);
  } else if (text_in(extension, "version") != CUDADENT_VERSION) {
    seen.warn("python",
              fmt::format("our extension is version {}, this tool {}", text_in(extension, "version"), CUDADENT_VERSION),
              python + fix);
  } else if (!extension.contains("functions") || extension["functions"].size() != 2) {
    seen.warn("python",
              "our extension loads, but lacks attention or flash_attention_forward: an ABI of another version",
              python + fix);
  } else {
    seen.ok("python",
            fmt::format("flashmoe_science {} ({})", text_in(extension, "version"), text_in(extension, "file")));
  }
  const auto owners = basic.find("flashmoe_owners");
  if (owners != basic.end() && owners->is_array() && !owners->empty()) {
    std::string names;
    for (const Json& owner : *owners) {
      if (!owner.is_string()) continue;
      if (!names.empty()) names += ' ';
      names += owner.get<std::string>();
    }
    seen.warn("python",
              fmt::format("installed: {}, which also brings a top-level package \"flashmoe\"; ours is "
                          "flashmoe_science, but files of theirs may shadow one another",
                          names),
              python + " -m pip uninstall " + names);
  } else {
    seen.ok("python", "no other package installs a top-level \"flashmoe\"");
  }
}

}  // namespace

std::string find_python() {
  const char* wanted = std::getenv("CUDADENT_PYTHON");
  if (wanted != nullptr && *wanted != '\0') return find_program({wanted});
  return find_program({"python3"});
}

Observations examine_python(const PythonWish& wish) {
  Observations seen;
  const std::string python = find_python();
  if (python.empty()) {
    const char* wanted = std::getenv("CUDADENT_PYTHON");
    seen.facts["python"] = nullptr;
    if (wanted != nullptr && *wanted != '\0')
      seen.warn("python", fmt::format("CUDADENT_PYTHON is \"{}\", but there is no such program", wanted),
                "unset CUDADENT_PYTHON, or set it to the python of your environment", Need::python);
    else
      seen.warn("python", "there is no python3 on PATH", "sudo apt-get install python3, or set CUDADENT_PYTHON",
                Need::python);
    return seen;
  }
  // torch takes seconds to import: both children run at once.
  std::future<Answer> torch;
  if (wish.torch) torch = std::async(std::launch::async, [&] { return ask(python, "torch", wish.limit_seconds); });
  const Answer basic = ask(python, "basic", wish.limit_seconds);
  Json facts = basic.json.is_object() ? basic.json : Json::object();
  if (!basic.json.is_object()) {
    seen.warn("python", fmt::format("{} does not answer: {}", python, basic.trouble),
              "set CUDADENT_PYTHON to a python that runs", Need::python);
  } else {
    seen.ok("python", fmt::format("python {} ({})", text_in(basic.json, "version"), python), Need::python);
    examine_package("numpy", python, part_of(basic.json, "numpy"), Need::numpy, seen);
    if (wish.extension) examine_extension(basic.json, python, seen);
  }
  if (wish.torch) {
    const Answer answer = torch.get();
    facts["torch"] = answer.json;
    if (answer.json.is_object())
      examine_package("torch", python, answer.json, Need::torch, seen);
    else if (answer.timed_out)
      seen.warn("python",
                fmt::format("torch did not import within {:.1f} s: cold files or a busy machine", wish.limit_seconds),
                "run it again: cudadent doctor --python-seconds 60", Need::torch);
    else
      seen.warn("python", "torch does not import: " + answer.trouble,
                python + " -m pip install --force-reinstall torch", Need::torch);
  }
  seen.facts["python"] = std::move(facts);
  return seen;
}

}  // namespace flashmoe::workflow
