// What an agent with a shell is told in a project: a section of AGENTS.md and of SKILL.md, between two markers, with
// the version of the binary that wrote it. What stands outside of the markers is the user's and is never touched.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct Answer;

enum class SectionState { current, missing, other_version, edited };
[[nodiscard]] const char* name_of(SectionState state);

struct InstructionFile {
  std::string file{};                           // "AGENTS.md"
  SectionState before = SectionState::missing;  // as it was found
  std::string version{};                        // of the section that was found; empty: none
  bool written = false;
};

// Both files, as they are. A file that no section may be written into is an error: a link, a directory, markers that do
// not pair.
[[nodiscard]] Result<std::vector<InstructionFile>> check_instructions(const std::string& directory,
                                                                      const std::string& version);
// Writes what is missing, of another version or edited. Nothing is written where one of the files is refused.
[[nodiscard]] Result<std::vector<InstructionFile>> write_instructions(const std::string& directory,
                                                                      const std::string& version);

// {"version", "files": [{"file", "state", "version", "written"}]}
[[nodiscard]] std::string instructions_json(const Answer& answer, const std::string& version,
                                            const std::vector<InstructionFile>& files);

}  // namespace flashmoe::workflow
