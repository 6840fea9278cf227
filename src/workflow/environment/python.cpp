// Python, NumPy, torch and our own extension, each looked at in a child with a time limit: an import may crash or hang.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <sstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

// Answers in one line of JSON. An import that fails is described by the attributes of the exception.
constexpr const char* probe_script = R"(
import gc, importlib.metadata as metadata, importlib.util as util, json, os, platform, sys

gc.disable()  # nothing of an import is garbage, and looking for some takes a fifth of its time

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
  const auto ran = run_process({.argv = {python, "-I", "-c", probe_script, what},
                                .limit = std::chrono::milliseconds(static_cast<long>(limit_seconds * 1000))});
  if (!ran) return {nullptr, ran.error().message};
  // The answer is the last line: a site may greet on stdout.
  std::istringstream lines(ran->out);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  Json json = parse_json(last);
  if (json.is_object()) return {std::move(json), {}};
  return {nullptr, ran->describe() + (ran->err.empty() ? "" : "\n" + ran->err), ran->timed_out};
}

std::optional<std::string> said(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

std::optional<std::vector<std::string>> names_said(const Json& json, const char* key) {
  if (field_in(json, key) == nullptr) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& name : list_in(json, key))
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

PackageFacts package_from(const Json& json) {
  PackageFacts package{.installed = flag_in(json, "installed"),
                       .directory = said(json, "directory"),
                       .version = said(json, "version"),
                       .error = said(json, "error"),
                       .module = said(json, "module"),
                       .path = said(json, "path"),
                       .file = said(json, "file"),
                       .functions = names_said(json, "functions")};
  if (field_in(json, "loads") != nullptr) package.loads = flag_in(json, "loads");
  if (field_in(json, "cuda") != nullptr) package.cuda = said(json, "cuda");
  return package;
}

PythonFacts python_from(const Json& json) {
  const auto package = [&](const char* key) {
    const Json* found = field_in(json, key);
    return found != nullptr && found->is_object() ? package_from(*found) : PackageFacts{};
  };
  return {.version = said(json, "version"),
          .executable = said(json, "executable"),
          .numpy = package("numpy"),
          .extension = package("extension"),
          .flashmoe_owners = names_said(json, "flashmoe_owners"),
          .torch_version = said(json, "torch_version")};
}

void examine_package(const char* name, const std::string& python, const PackageFacts& package, Need need,
                     Observations& seen) {
  const std::string pip = python + " -m pip install ";
  if (!package.installed) {
    seen.warn("python", fmt::format("{} is not installed for {}", name, python), pip + name, need);
    return;
  }
  if (package.loads.value_or(false)) {
    seen.ok("python", fmt::format("{} {}", name, package.version.value_or("")), need);
    return;
  }
  const std::string error = fmt::format("{} does not import: {}", name, package.error.value_or(""));
  if (package.directory)
    if (const auto missing = missing_libraries(*package.directory); !missing.empty()) {
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
  const std::string module = package.module.value_or("");
  const std::string top = module.substr(0, module.find('.'));
  seen.warn("python", error, pip + (top.empty() || top == name ? "--force-reinstall " + std::string(name) : top), need);
}

void examine_extension(const PythonFacts& facts, const std::string& python, Observations& seen) {
  const PackageFacts& extension = *facts.extension;
  const std::string version = extension.version.value_or("");
  const char* fix = " -m pip install --no-build-isolation .   (in the source tree)";
  if (!extension.installed) {
    seen.warn("python", "our extension flashmoe_science is not installed for " + python, python + fix);
  } else if (!extension.loads.value_or(false)) {
    seen.warn("python", "our extension does not load: " + extension.error.value_or(""), python + fix);
  } else if (version != CUDADENT_VERSION) {
    seen.warn("python", fmt::format("our extension is version {}, this tool {}", version, CUDADENT_VERSION),
              python + fix);
  } else if (!extension.functions || extension.functions->size() != 2) {
    seen.warn("python",
              "our extension loads, but lacks attention or flash_attention_forward: an ABI of another version",
              python + fix);
  } else {
    seen.ok("python", fmt::format("flashmoe_science {} ({})", version, extension.file.value_or("")));
  }
  if (facts.flashmoe_owners && !facts.flashmoe_owners->empty()) {
    const std::string names = fmt::format("{}", fmt::join(*facts.flashmoe_owners, " "));
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
  seen.facts.python_asked = true;
  const std::string python = find_python();
  if (python.empty()) {
    const char* wanted = std::getenv("CUDADENT_PYTHON");
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
  PythonFacts facts;
  if (!basic.json.is_object()) {
    seen.warn("python", fmt::format("{} does not answer: {}", python, basic.trouble),
              "set CUDADENT_PYTHON to a python that runs", Need::python);
  } else {
    facts = python_from(basic.json);
    seen.ok("python", fmt::format("python {} ({})", facts.version.value_or(""), python), Need::python);
    examine_package("numpy", python, *facts.numpy, Need::numpy, seen);
    if (wish.extension) examine_extension(facts, python, seen);
  }
  if (wish.torch) {
    const Answer answer = torch.get();
    facts.torch_asked = true;
    if (answer.json.is_object()) facts.torch = package_from(answer.json);
    if (facts.torch)
      examine_package("torch", python, *facts.torch, Need::torch, seen);
    else if (answer.timed_out)
      seen.warn("python",
                fmt::format("torch did not import within {:.1f} s: cold files or a busy machine", wish.limit_seconds),
                "run it again: cudadent doctor --python-seconds 60", Need::torch);
    else
      seen.warn("python", "torch does not import: " + answer.trouble,
                python + " -m pip install --force-reinstall torch", Need::torch);
  }
  seen.facts.python = std::move(facts);
  return seen;
}

}  // namespace flashmoe::workflow
