// A module ready to be interpreted: nested blocks flattened, so that every name means one thing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::oracle {

struct Place {  // of a variable in its space
  std::string space{};
  std::uint64_t offset = 0, bytes = 0;
};

struct Program {
  std::string name{};
  std::vector<ptx::Instruction> code{};
  std::vector<std::vector<std::string>> types{};  // of each instruction's modifiers, those that are types
  std::map<std::string, std::size_t> labels{};
  std::map<std::string, std::vector<std::string>> targets{};  // of brx.idx and of an indirect call
  std::unordered_map<std::string, int> register_bits{};       // a predicate has 1
  std::map<std::string, Place> variables{};                   // shared, local and param variables of the function
  std::vector<std::string> returns{}, parameters{};           // names, in order
  std::uint64_t local_bytes = 0;
};

struct Image {
  std::map<std::string, Program> functions{};
  std::map<std::string, Place> variables{};             // module scope; .global and .const are offsets in `module_data`
  std::map<std::string, std::uint64_t> function_ids{};  // what stands for a function's address
  std::vector<std::uint8_t> module_data{};              // .global and .const variables with their initial values
  std::uint64_t shared_bytes = 0;                       // static; dynamic shared memory begins behind it
  std::uint64_t parameter_bytes(const std::string& entry) const;
};

// Throws std::runtime_error on what it does not understand.
[[nodiscard]] Image build_image(const ptx::Module& module);

// Bits of a fundamental type: "f16x2" 32, "pred" 1.
[[nodiscard]] int type_bits(std::string_view type);
[[nodiscard]] bool is_type(const std::string& word);

}  // namespace flashmoe::vgpu::oracle
