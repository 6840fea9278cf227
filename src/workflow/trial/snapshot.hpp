// The working tree as a commit that no branch knows: what somebody edited, so that it can be checked out elsewhere,
// tried and named in a record, while tree, index and branch stay as they are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct Snapshot {
  std::string base{};    // HEAD
  std::string commit{};  // the tree as it is, child of HEAD; refs/cudadent/<first 12 digits> keeps it
  std::string patch{};   // from base to commit, as git writes it
  std::string patch_sha256{};
  std::vector<std::string> files{};  // what the patch touches, relative to the repository
  int lines_added = 0, lines_removed = 0;
};

// Files by their path in the project, with their new content; without one the file is to go.
using FileChanges = std::map<std::string, std::optional<std::string>>;

// Changes of tracked files anywhere in the repository, and files of the project that git does not know yet but would
// not ignore. The same edit gives the same commit.
[[nodiscard]] Result<Snapshot> take_snapshot(const Project& project);
// `parent` with these files changed, added or removed: what somebody proposes. The working tree is not looked at.
[[nodiscard]] Result<Snapshot> snapshot_of(const Project& project, const std::string& parent, const FileChanges& files);

}  // namespace flashmoe::workflow
