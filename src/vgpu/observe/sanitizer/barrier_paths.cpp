#include "vgpu/observe/sanitizer/barrier_paths.hpp"

namespace flashmoe::vgpu::observe {
namespace {

template <class Body>
void for_each_successor(const ir::Kernel& kernel, std::uint32_t pc, Body&& body) {
  const ir::Inst& inst = kernel.code[pc];
  const std::string& op = kernel.info[pc].form.opcode;
  const bool leaves = op == "bra" || op == "brx" || op == "ret" || op == "exit" || op == "trap";
  if ((!leaves || inst.guard != 0) && pc + 1 < kernel.code.size()) body(pc + 1);
  if (op == "bra") body(inst.target);
  if (op != "brx") return;
  for (std::uint32_t i = 0; i < kernel.lists[inst.list]; ++i) body(kernel.lists[inst.list + 1 + i]);
}

// What can be reached from where `marked` says so.
void spread(std::vector<bool>& marked, std::vector<std::uint32_t> fresh,
            const std::vector<std::vector<std::uint32_t>>& next) {
  while (!fresh.empty()) {
    const std::uint32_t pc = fresh.back();
    fresh.pop_back();
    for (const std::uint32_t to : next[pc]) {
      if (marked[to]) continue;
      marked[to] = true;
      fresh.push_back(to);
    }
  }
}

std::vector<bool> code_behind(const ir::Kernel& kernel, std::uint32_t barrier) {
  const std::size_t size = kernel.code.size();
  std::vector<std::vector<std::uint32_t>> after(size), before(size);
  for (std::uint32_t pc = 0; pc < size; ++pc) {
    for_each_successor(kernel, pc, [&](std::uint32_t to) {
      after[pc].push_back(to);
      before[to].push_back(pc);
    });
  }
  std::vector<bool> follows(size), leads_there(size);
  spread(follows, {barrier}, after);
  leads_there[barrier] = true;
  spread(leads_there, {barrier}, before);
  for (std::size_t pc = 0; pc < size; ++pc) follows[pc] = follows[pc] && !leads_there[pc];
  return follows;
}

}  // namespace

bool BarrierPaths::is_behind(const ir::Kernel& kernel, std::uint32_t barrier, std::uint32_t pc) {
  auto [found, is_new] = behind_.try_emplace(barrier);
  if (is_new) found->second = code_behind(kernel, barrier);
  return found->second[pc];
}

}  // namespace flashmoe::vgpu::observe
