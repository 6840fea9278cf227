// --json of `cudadent agents`.
#include "support/json.hpp"
#include "workflow/agents/instructions.hpp"
#include "workflow/output/answer.hpp"

namespace flashmoe::workflow {

std::string instructions_json(const Answer& answer, const std::string& version,
                              const std::vector<InstructionFile>& files) {
  Json list = Json::array();
  for (const InstructionFile& file : files) {
    list.push_back({{"file", file.file},
                    {"state", name_of(file.before)},
                    {"version", file.version.empty() ? Json(nullptr) : Json(file.version)},
                    {"written", file.written}});
  }
  return written(answer, {{"version", version}, {"files", std::move(list)}});
}

}  // namespace flashmoe::workflow
