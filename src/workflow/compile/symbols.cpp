#include "workflow/compile/symbols.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "images/elf.hpp"
#include "workflow/compile/kernel_name.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

struct SymbolName {
  std::string name;
  bool undefined = false;
  bool weak = false;
};

// A file that cannot be read has no symbols; the linker will have said so.
std::vector<SymbolName> symbols_of(const std::string& path, std::uint32_t table) {
  std::vector<SymbolName> found;
  const auto bytes = read_bytes(path);
  if (!bytes) return found;
  const auto elf = read_elf(*bytes);
  if (!elf) return found;
  for (const ElfSymbol& symbol : elf->symbols(table))
    if (!symbol.name.empty() && symbol.binding != STB_LOCAL)
      found.push_back({std::string(symbol.name), symbol.undefined(), symbol.binding == STB_WEAK});
  return found;
}

// "ns::foo" of "ns::foo<int>(float)": what a person would call it.
std::string base_name(const std::string& demangled_name) {
  return demangled_name.substr(0, demangled_name.find_first_of("(<"));
}

bool mangled(const std::string& name) {
  return name.rfind("_Z", 0) == 0;
}

}  // namespace

Result<Done> check_entry(const std::string& library, const Callable& callable, const std::string& role,
                         const Project& project) {
  std::vector<std::string> close;
  for (const SymbolName& symbol : symbols_of(library, SHT_DYNSYM)) {
    if (symbol.undefined) continue;
    if (symbol.name == callable.entry) return Done{};
    if (last_part(base_name(demangled(symbol.name))) == callable.entry) close.push_back(demangled(symbol.name));
  }
  Diagnostic why{.message = fmt::format("the built library has no function \"{}\"", callable.entry),
                 .fix = fmt::format("add to {}: extern \"C\" int {}(const cudadent_call* call) {{ ... }}   (with "
                                    "#include <cudadent/kernel.h>), or correct {} in cudadent.toml",
                                    callable.source, callable.entry, role),
                 .file = project.file,
                 .line = callable.line,
                 .key = role,
                 .code = codes::build_compile_failed};
  if (!close.empty()) {
    why.message += fmt::format(", but it has the C++ function \"{}\": extern \"C\" is missing", close.front());
    why.fix = fmt::format("change the definition in {} to: extern \"C\" int {}(const cudadent_call* call)",
                          callable.source, callable.entry);
  }
  return why;
}

std::vector<UndefinedSymbol> find_undefined(const std::vector<ObjectFile>& objects,
                                            const std::vector<std::string>& libraries) {
  std::set<std::string> defined;
  for (const ObjectFile& object : objects)
    for (const SymbolName& symbol : symbols_of(object.path, SHT_SYMTAB))
      if (!symbol.undefined) defined.insert(symbol.name);
  for (const std::string& library : libraries)
    for (const SymbolName& symbol : symbols_of(library, SHT_DYNSYM))
      if (!symbol.undefined) defined.insert(symbol.name);
  std::vector<UndefinedSymbol> missing;
  for (const ObjectFile& object : objects)
    for (const SymbolName& symbol : symbols_of(object.path, SHT_SYMTAB)) {
      // The linker itself provides this one.
      if (!symbol.undefined || symbol.weak || symbol.name == "_GLOBAL_OFFSET_TABLE_") continue;
      if (!defined.contains(symbol.name)) missing.push_back({symbol.name, demangled(symbol.name), object.source});
    }
  return missing;
}

Diagnostic explain_undefined(const std::vector<UndefinedSymbol>& undefined, const std::vector<ObjectFile>& objects,
                             const std::vector<NamedLibrary>& candidates, const Callable& callable,
                             const std::string& role, const Project& project) {
  const UndefinedSymbol& first = undefined.front();
  Diagnostic why{
      .message = fmt::format("undefined symbol \"{}\", used by {}", first.demangled, first.source),
      .fix = fmt::format("define {} in {} or in another file, and list that file in {}.sources in cudadent.toml",
                         first.demangled, first.source, role),
      .file = project.file,
      .line = callable.line,
      .key = role,
      .code = codes::build_compile_failed};
  if (first.demangled != first.name) why.message += fmt::format(" (linker name {})", first.name);
  if (undefined.size() > 1) {
    why.message += fmt::format("; {} more:", undefined.size() - 1);
    for (std::size_t i = 1; i < std::min<std::size_t>(undefined.size(), 6); ++i) {
      why.message += fmt::format(" {} ({})", undefined[i].demangled, undefined[i].source);
    }
  }

  // The same function under the other linkage, or with other arguments: the classic cause.
  for (const ObjectFile& object : objects)
    for (const SymbolName& symbol : symbols_of(object.path, SHT_SYMTAB)) {
      if (symbol.undefined || base_name(demangled(symbol.name)) != base_name(first.demangled)) continue;
      if (!mangled(first.name) && mangled(symbol.name)) {
        why.message += fmt::format("; {} defines the C++ function \"{}\" without extern \"C\"", object.source,
                                   demangled(symbol.name));
        why.fix = fmt::format("in {}, put extern \"C\" before the definition of {}", object.source, first.name);
      } else if (mangled(first.name) && !mangled(symbol.name)) {
        why.message += fmt::format("; {} defines \"{}\" as extern \"C\"", object.source, symbol.name);
        why.fix = fmt::format("in {}, put extern \"C\" before the declaration of {}", first.source, symbol.name);
      } else {
        why.message += fmt::format("; {} defines \"{}\", with other arguments", object.source, demangled(symbol.name));
        why.fix = fmt::format("make the declaration in {} and the definition in {} agree: \"{}\" against \"{}\"",
                              first.source, object.source, first.demangled, demangled(symbol.name));
      }
      return why;
    }
  for (const NamedLibrary& candidate : candidates)
    for (const SymbolName& symbol : symbols_of(candidate.path, SHT_DYNSYM))
      if (!symbol.undefined && symbol.name == first.name) {
        why.message += fmt::format("; library \"{}\" has it", candidate.name);
        why.fix = candidate.name == "gomp"
                      ? std::string("add \"-fopenmp\" to cpu.flags in cudadent.toml")
                      : fmt::format("add \"{}\" to {}.libraries in cudadent.toml", candidate.name, role);
        return why;
      }
  return why;
}

}  // namespace flashmoe::workflow
