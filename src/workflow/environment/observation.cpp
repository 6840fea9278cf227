#include "workflow/environment/observation.hpp"

#include <iterator>
#include <utility>

#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

template <class Facts>
void take(std::optional<Facts>& to, std::optional<Facts>& from) {
  if (from) to = std::move(from);
}

}  // namespace

const char* code_of(Need need) {
  switch (need) {
    case Need::cxx:
      return codes::environment_no_compiler;
    case Need::library:
      return codes::environment_no_library;
    case Need::cuda_toolkit:
      return codes::environment_no_nvcc;
    case Need::gpu:
      return codes::environment_no_gpu;
    case Need::python:
      return codes::environment_no_python;
    case Need::numpy:
      return codes::environment_no_numpy;
    case Need::torch:
      return codes::environment_no_torch;
    case Need::disk:
      return codes::environment_disk;
    case Need::nothing:
      break;
  }
  return codes::environment_degraded;
}

void Observations::add(Observations other) {
  all.insert(all.end(), std::make_move_iterator(other.all.begin()), std::make_move_iterator(other.all.end()));
  take(facts.cpu, other.facts.cpu);
  take(facts.compilers, other.facts.compilers);
  take(facts.cuda, other.facts.cuda);
  take(facts.counters, other.facts.counters);
  take(facts.clocks, other.facts.clocks);
  take(facts.disk, other.facts.disk);
  facts.python_asked = facts.python_asked || other.facts.python_asked;
  take(facts.python, other.facts.python);
}

}  // namespace flashmoe::workflow
