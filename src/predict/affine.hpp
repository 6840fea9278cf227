// The path of a large problem from those of two small ones. A kernel that goes round one loop a block of keys does the
// same before it and behind it, whatever their number, and the same in every round: from two blocks on its path is
// affine in them. Two runs at small sizes then give that of any size; a third one checks it.
#pragma once

#include <cstdint>

#include "predict/path.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

// The same CTA at `blocks` rounds of its loop.
struct SizedPath {
  CtaPath path{};
  std::int64_t blocks = 0;
};

// Refuses two paths that do not differ by whole rounds of a loop, and numbers of blocks that such rounds do not lead
// to.
[[nodiscard]] Result<CtaPath> path_at(const SizedPath& small, const SizedPath& large, std::int64_t blocks);

// Whether the path at `check` is what the two others say.
[[nodiscard]] bool is_affine(const SizedPath& small, const SizedPath& large, const SizedPath& check);

}  // namespace flashmoe::predict
