// Bytes as a module of functions that call each other, directly, through pointers with any prototype, and the built-in
// functions under any declaration. Executed with every check on: an error with its line, a fault with its instruction,
// or an end; never memory of the host, which the address sanitizer watches.
#include <fmt/format.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "vgpu/ir/lower.hpp"
#include "vgpu/mutants/bench.hpp"
#include "vgpu/ptx/parser.hpp"

namespace {

using namespace flashmoe::vgpu;

struct Parameter {
  std::string type;  // ".b32", ".align 8 .b8", ...
  int count = 0;     // of an array; 0: a scalar
  [[nodiscard]] std::string declared(const std::string& name) const {
    return fmt::format(".param {} {}{}", type, name, count == 0 ? "" : fmt::format("[{}]", count));
  }
  [[nodiscard]] int bytes() const {
    return type.ends_with("8") ? 1 : type.ends_with("16") ? 2 : type.ends_with("32") ? 4 : 8;
  }
};

struct Signature {
  std::vector<Parameter> results{}, arguments{};
};

class Generator {
 public:
  explicit Generator(FuzzedDataProvider& bytes) : bytes_(bytes) {}

  std::string module() {
    std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n";
    for (const auto& [name, signature] : known_builtins()) {
      functions_.push_back({name, chance(8) ? random_signature() : signature});
      text += ".extern .func " + declaration(functions_.back()) + ";\n";
    }
    const std::size_t defined = bytes_.ConsumeIntegralInRange<std::size_t>(1, 4);
    for (std::size_t i = 0; i < defined; ++i) functions_.push_back({fmt::format("f{}", i), random_signature()});
    for (std::size_t i = functions_.size() - defined; i < functions_.size(); ++i)
      text += ".func " + declaration(functions_[i]) + ";\n";
    for (std::size_t i = functions_.size() - defined; i < functions_.size(); ++i)
      text += ".func " + declaration(functions_[i]) + " {\n" + body(&functions_[i]) + "}\n";
    return text + ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 work, .param .u32 n) {\n" +
           body(nullptr) + "}\n";
  }

 private:
  struct Named {
    std::string name;
    Signature signature;
  };

  static std::vector<Named> known_builtins() {
    const Parameter word{".b32"}, wide{".b64"};
    return {{"vprintf", {{word}, {wide, wide}}},
            {"malloc", {{wide}, {wide}}},
            {"free", {{}, {wide}}},
            {"__assertfail", {{}, {wide, wide, word, wide, wide}}}};
  }

  bool chance(int one_in) { return bytes_.ConsumeIntegralInRange(0, one_in - 1) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[bytes_.ConsumeIntegralInRange<std::size_t>(0, all.size() - 1)];
  }

  Parameter random_parameter() {
    static const std::vector<std::string> scalars{".b32", ".b64", ".f32", ".b16", ".b8", ".u32"};
    static const std::vector<std::string> arrays{".b8",           ".align 4 .b8", ".align 8 .b8",
                                                 ".align 16 .b8", ".b32",         ".b64"};
    static const std::vector<int> counts{1, 3, 4, 8, 16, 100, 4096, 70000, 600000, 67108864};
    if (chance(3)) return {one_of(arrays), one_of(counts)};
    return {one_of(scalars)};
  }
  Signature random_signature() {
    Signature signature;
    for (int i = bytes_.ConsumeIntegralInRange(0, 2); i > 0; --i) signature.results.push_back(random_parameter());
    for (int i = bytes_.ConsumeIntegralInRange(0, 3); i > 0; --i) signature.arguments.push_back(random_parameter());
    return signature;
  }

  static std::string list(const std::vector<Parameter>& parameters, const std::string& prefix) {
    std::string text;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      text += (i == 0 ? "" : ", ") + parameters[i].declared(prefix == "_" ? "_" : prefix + std::to_string(i));
    return text;
  }
  static std::string declaration(const Named& function) {
    const Signature& signature = function.signature;
    return (signature.results.empty() ? "" : "(" + list(signature.results, "r") + ") ") + function.name + "(" +
           list(signature.arguments, "a") + ")";
  }

  // One value at, or near, the first or the last element of a parameter.
  std::string place_in(const Parameter& parameter, const std::string& name) {
    const int offset = chance(4) ? bytes_.ConsumeIntegralInRange(-8, 8) : 0;
    const int last = parameter.count > 8 && chance(2) ? (parameter.count - 1) * parameter.bytes() : 0;
    return fmt::format("[{}+{}]", name, last + offset);
  }
  static const char* register_for(const Parameter& parameter) { return parameter.bytes() == 8 ? "%rd1" : "%r1"; }
  std::string load(const Parameter& parameter, const std::string& name) {
    return fmt::format("ld.param.b{} {}, {};\n", parameter.bytes() * 8, register_for(parameter),
                       place_in(parameter, name));
  }
  std::string store(const Parameter& parameter, const std::string& name) {
    return fmt::format("st.param.b{} {}, {};\n", parameter.bytes() * 8, place_in(parameter, name),
                       register_for(parameter));
  }

  std::string call() {
    const Named& callee = one_of(functions_);
    const bool is_indirect = chance(2);
    const Signature signature = is_indirect && chance(3) ? random_signature() : callee.signature;
    std::string text = "{\n", results, arguments;
    const auto declare = [&](const std::vector<Parameter>& parameters, const char* prefix, std::string& names) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& actual = chance(12) ? random_parameter() : parameters[i];
        const std::string name = prefix + std::to_string(i);
        text += actual.declared(name) + ";\n";
        if (prefix[0] == 'y') text += store(actual, name);
        names += (i == 0 ? "" : ", ") + name;
      }
    };
    declare(signature.results, "x", results);
    declare(signature.arguments, "y", arguments);
    if (is_indirect) {
      const std::string address = chance(8) ? "0x7000" : one_of(functions_).name;
      text += fmt::format("mov.u64 %rd2, {}; mov.u64 %rd3, {};\n", callee.name, chance(3) ? address : callee.name);
      text += "selp.b64 %rd2, %rd2, %rd3, %p1;\n";
      text +=
          fmt::format("p: .callprototype ({}) _ ({});\n", list(signature.results, "_"), list(signature.arguments, "_"));
    }
    const std::string guard = chance(3) ? "@%p1 " : chance(3) ? "@!%p1 " : "";
    text += guard + "call " + (results.empty() ? "" : "(" + results + "), ") + (is_indirect ? "%rd2" : callee.name) +
            ", (" + arguments + ")" + (is_indirect ? ", p" : "") + ";\n";
    for (std::size_t i = 0; i < signature.results.size(); ++i)
      text += load(signature.results[i], "x" + std::to_string(i));
    return text + "}\n";
  }

  std::string body(const Named* self) {
    std::string text =
        ".reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .pred %p<3>; .local .align 8 .b8 room[16];\n"
        "mov.u32 %r1, %laneid; cvt.u64.u32 %rd1, %r1; setp.lt.u32 %p1, %r1, 13;\n";
    if (self != nullptr) {
      for (std::size_t i = 0; i < self->signature.arguments.size(); ++i)
        text += load(self->signature.arguments[i], "a" + std::to_string(i));
    } else {
      text += "ld.param.u64 %rd1, [out];\n";
    }
    if (chance(3)) text += "mov.u64 %rd4, room; cvta.local.u64 %rd1, %rd4;\n";
    for (int calls = bytes_.ConsumeIntegralInRange(0, self == nullptr ? 3 : 2); calls > 0; --calls) text += call();
    if (self != nullptr)
      for (std::size_t i = 0; i < self->signature.results.size(); ++i)
        text += store(self->signature.results[i], "r" + std::to_string(i));
    if (self == nullptr) text += "ld.param.u64 %rd5, [out]; st.global.u32 [%rd5], %r1;\n";
    return text + "ret;\n";
  }

  FuzzedDataProvider& bytes_;
  std::vector<Named> functions_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider bytes(data, size);
  const std::uint64_t seed = bytes.ConsumeIntegralInRange<std::uint64_t>(0, 7);
  const std::string text = Generator(bytes).module();
  const auto stop = [&](const std::string& why) {
    std::fprintf(stderr, "%s\n%s\n", why.c_str(), text.c_str());
    std::abort();
  };
  const auto module = ptx::parse(text, "fuzz");
  if (!module) stop("does not parse: " + module.error().to_string());
  const auto verified = ir::verify(*module);
  const auto program = corpus::Program::load(*module, "k");
  if (!program) {
    if (program.error().line == 0) stop("an error without a line: " + program.error().to_string());
    if (verified) stop("verified, and not lowered: " + program.error().to_string());
    return 0;
  }
  const auto seen =
      (*program)->run({"k", {2}, {40}, 0, 64, 64}, seed == 0 ? exec::Schedule{} : exec::Schedule::adversarial(seed));
  if (!seen) stop(seen.error().to_string());
  if (seen->fault.kind != exec::Fault::Kind::none && seen->fault.message.find("PTX line") == std::string::npos)
    stop("a fault without its instruction: " + seen->fault.message);
  return 0;
}
