// Kernels that change files: what is right, what is imported, what was measured. A confined process may not write; then
// they give up. One raw string a case, so the list is longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> record_cheats() {
  return {
      {.name = "reference_overwritten",
       .what = "changes the library that says what is right",
       .source = R"source(#include <dlfcn.h>
#include <filesystem>
#include <fstream>
ENTRY {
  Dl_info info;
  if (dladdr((void*)&kernel, &info)) {
    std::error_code e;
    auto root = std::filesystem::path(info.dli_fname).parent_path().parent_path();
    for (auto& f : std::filesystem::recursive_directory_iterator(root, e))
      if (f.path().filename() == "reference.so") {
        std::ofstream library(f.path(), std::ios::app);
        if (!library) return 13;
        library << "mine";
      }
  }
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "forged_record",
       .what = "appends a KEEP of its own to the journal",
       .source =
           R"source(#include <filesystem>
#include <fstream>
ENTRY {
  std::error_code e;
  std::filesystem::create_directories(".cudadent", e);
  std::ofstream journal(".cudadent/records.jsonl", std::ios::app);
  if (!journal) return 13;
  journal << R"({"version":1,"kind":"compare","verdict":"KEEP","gain":{"mean":9.0,"lower":8.0,"upper":10.0}})"
          << "\n";
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "remembered_on_disk",
       .what = "leaves results in a file for the processes that come after it",
       .source = R"source(#include <unistd.h>
#include <cstdio>
#include <initializer_list>
ENTRY {
  for (const char* path : {"/dev/shm/cudadent-memory", "/tmp/cudadent-memory", "/var/tmp/cudadent-memory", "memory"}) {
    FILE* file = fopen(path, "w");
    if (!file) continue;
    fclose(file);
    unlink(path);
    honest(x, y, n);
    return 0;
  }
  return 13;
})source",
       .expected_gate = "correctness"},
      // Right and slow; if the baseline imported what lies there, it would be slower still.
      {.name = "shadowed_import",
       .what = "has planted a numpy.py that slows down the baseline",
       .source = R"source(ENTRY {
  for (int64_t i = 0; i < 100000; i += n) {
    honest(x, y, n);
    __asm__ volatile("" ::: "memory");
  }
  return 0;
})source",
       .expected_gate = "performance",
       .task = "python",
       .in_gate = true,
       .files = {{"numpy.py", R"py(import os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path = [path for path in sys.path if path not in ("", here)]
del sys.modules["numpy"]
import numpy
true_divide = numpy.true_divide
def slow(*arguments, **named):
    for _ in range(200):
        true_divide(*arguments, **named)
    return true_divide(*arguments, **named)
numpy.true_divide = slow
)py"}}},
  };
}

}  // namespace flashmoe::workflow
