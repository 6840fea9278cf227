#include "vgpu/micro/forms.hpp"

#include <fstream>
#include <sstream>

#include "vgpu/ir/op_table.hpp"

namespace flashmoe::vgpu::micro {

std::vector<FormText> forms_of_the_table() {
  std::vector<FormText> forms;
  for (const ir::OpRow& row : ir::op_table())
    for (const std::string& form : ir::expand(row)) forms.push_back(take_apart(form, row.operands));
  return forms;
}

std::vector<FormText> forms_of_the_list(const std::string& path, std::vector<std::string>& unsupported) {
  std::vector<FormText> forms;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::string name;
    std::istringstream(line) >> name;
    const FormText plain = take_apart(name, "");
    ir::Form form;
    form.opcode = plain.opcode;
    form.modifiers = plain.modifiers;
    const ir::OpRow* row = ir::match(form);
    if (row == nullptr)
      unsupported.push_back(name);
    else
      forms.push_back(take_apart(name, row->operands));
  }
  return forms;
}

}  // namespace flashmoe::vgpu::micro
