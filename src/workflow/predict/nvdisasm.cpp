#include "workflow/predict/nvdisasm.hpp"

#include <filesystem>
#include <map>
#include <mutex>

#include "support/process.hpp"
#include "support/sha256.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {

Result<std::vector<predict::SassKernel>> sass_of(const std::string& nvdisasm, const std::string& cubin) {
  // Half a second for the smallest cubin, and a loop over versions asks for each of them again and again.
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::vector<predict::SassKernel>>;
  constexpr std::size_t most_known = 64;
  const auto hash = sha256_of_file(cubin);
  if (!hash) return hash.error();
  const std::string key = nvdisasm + "\n" + *hash;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const auto ran = run_process({.argv = {nvdisasm, "-c", "-hex", "-gp", cubin}, .limit = std::chrono::seconds(120)});
  if (!ran) return ran.error();
  if (!ran->ok())
    return Diagnostic{.message = nvdisasm + " " + ran->describe() + " for " + cubin + "\n" + ran->err,
                      .fix = "use an nvdisasm at least as new as the ptxas that made the cubin",
                      .code = codes::environment_no_nvdisasm};
  auto sass = predict::parse_sass(ran->out, "nvdisasm of " + std::filesystem::path(cubin).filename().string());
  if (!sass) return sass;
  const std::lock_guard lock(mutex);
  if (known.size() >= most_known) known.clear();
  return known[key] = std::move(*sass);
}

}  // namespace flashmoe::workflow
