#include "vgpu/oracle/program.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace flashmoe::vgpu::oracle {

namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t align) {
  return (value + align - 1) / align * align;
}

std::uint64_t element_bytes(const ptx::Variable& variable) {
  return static_cast<std::uint64_t>(std::max(1, type_bits(variable.type) / 8) * variable.vector);
}

std::uint64_t bytes_of(const ptx::Variable& variable) {
  std::uint64_t bytes = element_bytes(variable);
  for (const std::int64_t dim : variable.dims) bytes *= dim < 0 ? 0 : static_cast<std::uint64_t>(dim);
  return bytes;
}

std::uint64_t align_of(const ptx::Variable& variable) {
  return variable.align > 0 ? static_cast<std::uint64_t>(variable.align) : element_bytes(variable);
}

// Where the next variable of a space goes.
Place append(const ptx::Variable& variable, std::uint64_t& end) {
  const Place place{variable.space, align_up(end, align_of(variable)), bytes_of(variable)};
  end = place.offset + place.bytes;
  return place;
}

class Flattener {
 public:
  Flattener(Program& program, Image& image) : program_(program), image_(image) {}

  void parameters(const std::vector<ptx::Variable>& variables, std::vector<std::string>& names) {
    for (const ptx::Variable& variable : variables) {
      names.push_back(variable.name);
      if (variable.space == "reg")
        program_.register_bits[variable.name] = type_bits(variable.type);
      else
        program_.variables[variable.name] = append(variable, parameter_end_);
    }
  }

  void block(const ptx::Block& block) {
    scopes_.emplace_back();
    const std::string suffix = scopes_.size() == 1 ? "" : "#" + std::to_string(++blocks_);
    for (const ptx::Statement& statement : block.statements) declare(statement, suffix);
    for (const ptx::Statement& statement : block.statements) {
      if (const auto* label = std::get_if<ptx::Label>(&statement.what))
        program_.labels[resolve(label->name)] = program_.code.size();
      else if (const auto* inner = std::get_if<ptx::Block>(&statement.what))
        this->block(*inner);
      else if (const auto* list = std::get_if<ptx::TargetList>(&statement.what))
        targets(*list);
      else if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.what))
        append_instruction(renamed(*instruction));
    }
    scopes_.pop_back();
  }

 private:
  void declare(const ptx::Statement& statement, const std::string& suffix) {
    if (const auto* label = std::get_if<ptx::Label>(&statement.what))
      scopes_.back()[label->name] = label->name + suffix;
    if (const auto* list = std::get_if<ptx::TargetList>(&statement.what))
      scopes_.back()[list->name] = list->name + suffix;
    const auto* variable = std::get_if<ptx::Variable>(&statement.what);
    if (variable == nullptr) return;
    if (variable->space == "reg") {
      const int count = std::max(1, variable->range);
      for (int i = 0; i < count; ++i) {
        const std::string name = variable->range > 0 ? variable->name + std::to_string(i) : variable->name;
        scopes_.back()[name] = name + suffix;
        program_.register_bits[name + suffix] = type_bits(variable->type);
      }
      return;
    }
    scopes_.back()[variable->name] = variable->name + suffix;
    std::uint64_t& end = variable->space == "shared"  ? image_.shared_bytes
                         : variable->space == "local" ? program_.local_bytes
                                                      : parameter_end_;
    program_.variables[variable->name + suffix] = append(*variable, end);
  }

  void append_instruction(ptx::Instruction instruction) {
    std::vector<std::string>& types = program_.types.emplace_back();
    std::copy_if(instruction.modifiers.begin(), instruction.modifiers.end(), std::back_inserter(types), is_type);
    program_.code.push_back(std::move(instruction));
  }

  void targets(const ptx::TargetList& list) {
    std::vector<std::string>& resolved = program_.targets[resolve(list.name)];
    for (const std::string& target : list.targets) resolved.push_back(resolve(target));
  }

  std::string resolve(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return name;
  }

  void rename(ptx::Operand& operand) const {
    operand.name = resolve(operand.name);
    for (ptx::Operand& part : operand.parts) rename(part);
  }

  ptx::Instruction renamed(ptx::Instruction instruction) const {
    if (instruction.guard) instruction.guard->predicate = resolve(instruction.guard->predicate);
    for (ptx::Operand& operand : instruction.operands) rename(operand);
    return instruction;
  }

  Program& program_;
  Image& image_;
  std::vector<std::map<std::string, std::string>> scopes_{};
  int blocks_ = 0;
  std::uint64_t parameter_end_ = 0;
};

void initialise(Image& image, const ptx::Variable& variable, const Place& place) {
  image.module_data.resize(std::max<std::size_t>(image.module_data.size(), place.offset + place.bytes));
  const auto bytes = static_cast<std::uint64_t>(std::max(1, type_bits(variable.type) / 8));
  for (std::size_t i = 0; i < variable.initial.size(); ++i) {
    const ptx::Operand& value = variable.initial[i];
    if (value.kind == ptx::Operand::Kind::identifier)
      throw std::runtime_error("the oracle does not initialise " + variable.name + " with an address");
    for (std::uint64_t byte = 0; byte < bytes; ++byte)
      image.module_data[place.offset + i * bytes + byte] = static_cast<std::uint8_t>(value.bits >> (8 * byte));
  }
}

}  // namespace

int type_bits(std::string_view type) {
  if (type.size() == 3) return (type[1] - '0') * 10 + (type[2] - '0');  // most: u32
  if (type == "pred") return 1;
  if (type == "tf32") return 32;
  if (type == "e4m3x2" || type == "e5m2x2") return 16;
  if (type == "e4m3" || type == "e5m2") return 8;
  std::size_t at = type.find_first_of("0123456789");
  if (at == std::string::npos) throw std::runtime_error("no type: ." + std::string(type));
  std::size_t end = at;
  int bits = 0;
  for (; end < type.size() && type[end] >= '0' && type[end] <= '9'; ++end) bits = bits * 10 + (type[end] - '0');
  if (type.substr(end) == "x2") bits *= 2;
  return bits;
}

bool is_type(const std::string& word) {
  static const std::vector<std::string> names = {"pred", "b8",   "b16",    "b32",    "b64",   "b128", "u8",
                                                 "u16",  "u32",  "u64",    "s8",     "s16",   "s32",  "s64",
                                                 "f16",  "f32",  "f64",    "bf16",   "f16x2", "tf32", "bf16x2",
                                                 "e4m3", "e5m2", "e4m3x2", "e5m2x2", "u16x2", "s16x2"};
  return std::find(names.begin(), names.end(), word) != names.end();
}

std::uint64_t Image::parameter_bytes(const std::string& entry) const {
  std::uint64_t end = 0;
  const Program& program = functions.at(entry);
  for (const std::string& name : program.parameters) {
    const Place& place = program.variables.at(name);
    end = std::max(end, place.offset + place.bytes);
  }
  return end;
}

Image build_image(const ptx::Module& module) {
  Image image;
  std::uint64_t data_end = 0;
  for (const ptx::Variable& variable : module.variables) {
    const bool is_shared = variable.space == "shared";
    const Place place = append(variable, is_shared ? image.shared_bytes : data_end);
    image.variables[variable.name] = place;
    if (!is_shared) initialise(image, variable, place);
  }
  for (const ptx::Function& function : module.functions) {
    image.function_ids.emplace(function.name, image.function_ids.size() + 1);
    if (function.is_declaration) continue;
    Program program;
    program.name = function.name;
    Flattener flattener(program, image);
    flattener.parameters(function.returns, program.returns);
    flattener.parameters(function.parameters, program.parameters);
    flattener.block(function.body);
    image.functions[function.name] = std::move(program);
  }
  // Variables of no size are dynamic shared memory; it begins behind all others, wherever they were declared.
  const std::uint64_t dynamic = align_up(image.shared_bytes, 128);
  for (auto& [name, place] : image.variables)
    if (place.space == "shared" && place.bytes == 0) place.offset = dynamic;
  image.shared_bytes = dynamic;
  return image;
}

}  // namespace flashmoe::vgpu::oracle
