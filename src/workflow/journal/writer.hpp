// Who writes records here, and what he remembers of his own chain. The memory is in the user's state directory
// (XDG_STATE_HOME, else ~/.local/state), where no kernel may write: so records that are taken off the end of a journal,
// or the whole file, are missed, and a record that somebody put there under this name is known for what it is.
#pragma once

#include <optional>
#include <string>

#include "workflow/journal/chain.hpp"

namespace flashmoe::workflow {

// This user on this machine in this journal; 12 hex digits. A copy of a journal elsewhere is continued by another
// writer, so that the two can be merged: neither has taken a place in the other's chain.
[[nodiscard]] std::string writer_of(const std::string& journal);

// A record is announced before it is written and confirmed after it: killed in between, its writer has written it or
// not, and the file says which.
struct ChainMemory {
  ChainEnd written{};
  ChainEnd announced{};
};

// Unset: nothing is remembered of this journal.
[[nodiscard]] std::optional<ChainMemory> remembered(const std::string& journal);
// What cannot be stored is not remembered; the journal's own chain stays.
void remember(const std::string& journal, const ChainMemory& memory);

// What else is kept of a journal beside that memory: a file of its own for each ending. Empty: there is no place.
[[nodiscard]] std::string state_file(const std::string& journal, const std::string& ending);
// Whole or not at all: a reader sees the old one or the new one. False: the old one stays.
bool replace_file(const std::string& path, const std::string& content);

}  // namespace flashmoe::workflow
