#include "workflow/gates/next.hpp"

#include <filesystem>
#include <string_view>

#include "support/text.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

bool is_about(std::string_view code, std::initializer_list<std::string_view> subjects) {
  for (const std::string_view subject : subjects) {
    if (code.substr(0, code.find('.')) == subject) return true;
  }
  return false;
}

// Without a clock the counters are all there is to ask for.
bool is_timed(const std::string& device) {
  const auto known = parse_device(device);
  return !known || has_clock(*known);
}

}  // namespace

std::string project_argument(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path near = fs::proximate(directory, error);
  if (error || near == ".") return "";
  const bool is_far = near.string().starts_with("../..");
  return " " + shell_word(is_far ? directory : near.string());
}

std::string next_command(const Project& project, const Standpoint& at) {
  const std::string here = project_argument(project.directory);
  const std::string on = at.device.empty() || at.device == "cpu" ? "" : " --device " + at.device;
  std::string gate = "cudadent gate" + here + on;
  std::string profile = "cudadent profile" + here + on;
  const std::string& code = at.code;
  if (at.outcome == Outcome::holds && code.empty()) {
    if (!is_timed(at.device)) return profile;
    return at.is_whole ? "cudadent compare" + here : gate;
  }
  if (code == codes::performance_not_timed || code == codes::performance_predicted) return profile;
  if (code == codes::performance_undecided) return gate + " --only performance --limit 60";
  if (code == codes::performance_baseline_drift) return gate + " --accept-baseline";
  const bool is_slow = code == codes::performance_too_slow || code == codes::performance_broken;
  if (is_slow) return "cudadent profile" + here;
  if (code == codes::baseline_failed) return gate + " --only performance";
  if (is_about(code, {"environment"})) return "cudadent doctor";
  if (is_about(code, {"build"})) return gate + " --only build";
  if (is_about(code, {"kernel", "reference", "correctness", "gpu"})) {
    return gate + " --until correctness" + (at.seed != 0 ? " --seed " + std::to_string(at.seed) : "");
  }
  if (is_about(code, {"profile"})) return profile;
  if (is_about(code, {"usage", "project"})) return row_of(code).next;
  return gate;
}

std::string next_command(const Project& project, const GateRun& run, const GateOptions& options, std::uint64_t seed) {
  return next_command(project, {.device = run.device,
                                .outcome = run.outcome,
                                .code = run.code,
                                .seed = seed,
                                .is_whole = options.only.empty() && options.until.empty()});
}

}  // namespace flashmoe::workflow
