#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

const char* name_of(Failure failure) {
  switch (failure) {
    case Failure::none:
      return "none";
    case Failure::crashed:
      return "crashed";
    case Failure::out_of_memory:
      return "out of memory";
    case Failure::hung:
      return "hung";
    case Failure::refused:
      return "refused";
    case Failure::could_not_start:
      return "could not start";
  }
  return "none";
}

}  // namespace flashmoe::workflow
