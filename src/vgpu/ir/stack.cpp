#include "vgpu/ir/stack.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "vgpu/ir/layout.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr std::uint32_t return_bytes = 16, slot_bytes = 8;

using CallGraph = std::vector<std::vector<std::size_t>>;  // by function, whom it may call

CallGraph call_graph(const Kernel& kernel) {
  std::vector<std::size_t> defined, taken;  // their code lies in the kernel one behind the other, in this order
  for (std::size_t i = 0; i < kernel.functions.size(); ++i) {
    if (kernel.functions[i].builtin.empty()) defined.push_back(i);
    if (kernel.functions[i].address != 0) taken.push_back(i);
  }
  CallGraph graph(kernel.functions.size());
  for (std::size_t n = 0; n < defined.size(); ++n) {
    const std::size_t end = n + 1 < defined.size() ? kernel.functions[defined[n + 1]].entry : kernel.code.size();
    std::set<std::size_t> callees;
    for (std::size_t pc = kernel.functions[defined[n]].entry; pc < end; ++pc) {
      if (kernel.info[pc].form.opcode != "call") continue;
      if (kernel.code[pc].target != no_slot)
        callees.insert(kernel.code[pc].target);
      else
        callees.insert(taken.begin(), taken.end());  // through a pointer: any function whose address is taken
    }
    graph[defined[n]].assign(callees.begin(), callees.end());
  }
  return graph;
}

}  // namespace

std::uint32_t stack_bytes_of(const Function& function, bool is_entry) {
  const std::uint32_t called = is_entry ? 0 : return_bytes + function.parameter_bytes;
  return round_up(function.local_bytes + called, slot_bytes);
}

// Depth first, without recursion of our own: how many functions there are is up to the text.
std::uint32_t known_stack_bytes(const Kernel& kernel) {
  if (kernel.functions.empty()) return 0;
  const CallGraph graph = call_graph(kernel);
  struct Visit {
    std::size_t function = 0, next = 0;  // the next callee to look at
    std::uint32_t deepest = 0;
  };
  enum class Seen : std::uint8_t { no, under_way, done };
  std::vector<Seen> seen(graph.size(), Seen::no);
  std::vector<std::uint32_t> bytes(graph.size(), 0);
  std::vector<Visit> path{{}};
  seen[0] = Seen::under_way;
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.next < graph[visit.function].size()) {
      const std::size_t callee = graph[visit.function][visit.next];
      if (seen[callee] == Seen::no) {
        seen[callee] = Seen::under_way;
        path.push_back({.function = callee});
        continue;
      }
      // One that is under way calls itself: how often is not known.
      if (seen[callee] == Seen::done) visit.deepest = std::max(visit.deepest, bytes[callee]);
      ++visit.next;
      continue;
    }
    bytes[visit.function] = std::min(kernel.functions[visit.function].stack_bytes + visit.deepest, kMostBytes);
    seen[visit.function] = Seen::done;
    path.pop_back();
  }
  return bytes[0];
}

}  // namespace flashmoe::vgpu::ir
