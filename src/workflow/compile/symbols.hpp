// Why a shared library does not link or has no entry, read from the symbol tables of what was built.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct ObjectFile {
  std::string source;  // as the project names it
  std::string path;
};

// The library must define `entry` as a C function; otherwise the diagnostic says what is there instead.
[[nodiscard]] Result<Done> check_entry(const std::string& library, const Callable& callable, const std::string& role,
                                       const Project& project);

struct UndefinedSymbol {
  std::string name;       // as the linker sees it
  std::string demangled;  // as C++ writes it
  std::string source;     // whose object asks for it
};

// What `objects` ask for and neither they nor the libraries (paths of shared libraries) define.
[[nodiscard]] std::vector<UndefinedSymbol> find_undefined(const std::vector<ObjectFile>& objects,
                                                          const std::vector<std::string>& libraries);

// Libraries that a project can name and that may bring a symbol: ("m", path of libm.so.6).
struct NamedLibrary {
  std::string name;
  std::string path;
};

// One diagnostic for all of them; `candidates` are searched for who would bring the first one.
[[nodiscard]] Diagnostic explain_undefined(const std::vector<UndefinedSymbol>& undefined,
                                           const std::vector<ObjectFile>& objects,
                                           const std::vector<NamedLibrary>& candidates, const Callable& callable,
                                           const std::string& role, const Project& project);

}  // namespace flashmoe::workflow
