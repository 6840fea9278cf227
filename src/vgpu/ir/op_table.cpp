#include "vgpu/ir/op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "vgpu/ir/op_rows.hpp"
#include "vgpu/ir/pattern.hpp"

namespace flashmoe::vgpu::ir {
namespace {

struct Table {
  std::vector<OpRow> rows{};
  std::vector<Pattern> patterns{};
  std::unordered_map<std::string_view, std::vector<std::size_t>> by_opcode{};
};

const Table& table() {
  // Never destroyed, like everything static in the driver: programs call it while their process ends.
  static const Table& built = *[] {
    auto* const table = new Table;
    for (const auto rows :
         {integer_rows(), float_rows(), compare_rows(), move_rows(), memory_rows(), matrix_rows(), control_rows()})
      table->rows.insert(table->rows.end(), rows.begin(), rows.end());
    for (std::size_t i = 0; i < table->rows.size(); ++i) {
      table->patterns.emplace_back(table->rows[i].pattern);
      table->by_opcode[table->rows[i].opcode].push_back(i);
    }
    return table;
  }();
  return built;
}

Space space_of(std::string_view modifier) {
  const std::string_view base = modifier.substr(0, modifier.find("::"));
  if (base == "global") return Space::global;
  if (base == "shared") return Space::shared;
  if (base == "local") return Space::local;
  if (base == "param") return Space::param;
  if (base == "const") return Space::constant;
  return Space::generic;
}

Rounding rounding_of(std::string_view modifier) {
  constexpr std::pair<std::string_view, Rounding> names[] = {
      {"rn", Rounding::rn},   {"rna", Rounding::rna}, {"rz", Rounding::rz},
      {"rm", Rounding::rm},   {"rp", Rounding::rp},   {"rni", Rounding::rni},
      {"rzi", Rounding::rzi}, {"rmi", Rounding::rmi}, {"rpi", Rounding::rpi}};
  for (const auto& [name, rounding] : names)
    if (name == modifier) return rounding;
  return Rounding::none;
}

int vector_of(std::string_view modifier) {
  return modifier == "v2" ? 2 : modifier == "v4" ? 4 : modifier == "v8" ? 8 : 1;
}

void take_apart(Form& form) {
  form.types.clear();
  form.space = Space::generic;
  form.rounding = Rounding::none;
  form.vector = 1;
  for (const std::string& modifier : form.modifiers) {
    if (const Type type = type_of(modifier); type != Type::none) form.types.push_back(type);
    // cp.async.shared.global: the first space is where the data goes.
    if (form.space == Space::generic) form.space = space_of(modifier);
    if (form.rounding == Rounding::none) form.rounding = rounding_of(modifier);
    form.vector = std::max(form.vector, vector_of(modifier));
  }
}

// Letters to change, put in or take out.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t kept = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({kept, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const OpRow> op_table() {
  return table().rows;
}

const OpRow* match(Form& form) {
  const auto found = table().by_opcode.find(form.opcode);
  if (found == table().by_opcode.end()) return nullptr;
  for (const std::size_t i : found->second) {
    if (!table().patterns[i].matches(form.modifiers)) continue;
    take_apart(form);
    return &table().rows[i];
  }
  return nullptr;
}

const OpRow& nearest_row(const Form& form) {
  const auto found = table().by_opcode.find(form.opcode);
  std::size_t nearest = 0;
  std::size_t least = SIZE_MAX;
  for (std::size_t i = 0; i < table().rows.size(); ++i) {
    // Another modifier is a smaller step than another opcode.
    const std::size_t opcode = found == table().by_opcode.end() ? 100 * edits(form.opcode, table().rows[i].opcode)
                               : table().rows[i].opcode == form.opcode ? 0
                                                                       : 100000;
    const std::size_t distance = opcode + static_cast<std::size_t>(table().patterns[i].distance(form.modifiers));
    if (distance < least) {
      least = distance;
      nearest = i;
    }
  }
  return table().rows[nearest];
}

std::vector<std::string> expand(const OpRow& row) {
  std::vector<std::string> forms = Pattern(row.pattern).expand();
  for (std::string& form : forms) form.insert(0, row.opcode);
  return forms;
}

}  // namespace flashmoe::vgpu::ir
