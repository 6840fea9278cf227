#include "workflow/journal/listing.hpp"

#include <gtest/gtest.h>

#include <map>

#include "workflow/journal/difference.hpp"
#include "workflow/journal/records_for_test.hpp"

namespace flashmoe::workflow {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Listing, ALineSaysWhatItWasAndWhatItCost) {
  const std::string line = list_line(compare_record("aaaabbbbcccc", "KEEP", 0.0521));
  for (const char* part :
       {"aaaabbbbcccc", "KEEP", "0123456789ab", "+5.21 %", "+4.21 %", "unbounded", "0.1100", "30.0"}) {
    EXPECT_TRUE(has(line, part)) << part << " in " << line;
  }
  EXPECT_TRUE(has(list_line(gate_record("ddddeeeeffff", 1.1, Outcome::fails)), "build holds, performance fails"));
}

TEST(SideBySide, ShowsWhatDiffersAndByHowMuch) {
  const Record a = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  const Record b = compare_record("bbbbccccdddd", "REVERT", 0.10);
  const SideBySide difference = side_by_side(a, b);
  std::map<std::string, Difference> rows;
  for (const Difference& row : difference.differs) rows[row.key] = row;
  EXPECT_TRUE(rows.contains("verdict"));
  EXPECT_NEAR(rows.at("gain.mean").ratio.value_or(0), 2, 1e-9);
  EXPECT_FALSE(rows.contains("id")) << "bookkeeping is no difference";
  EXPECT_FALSE(rows.contains("samples[0].log_ratio"));
  EXPECT_FALSE(rows.contains("commit"));
  EXPECT_GT(difference.same, 5);
  const std::string text = side_by_side_text(difference);
  EXPECT_TRUE(has(text, "aaaabbbbcccc")) << text;
  EXPECT_TRUE(has(text, "(x 2)")) << text;
}

TEST(SideBySide, ExplainsARunByMachineAndBuildsAlone) {
  Record then = gate_record("a1", 1.1, Outcome::holds);
  Record now = gate_record("a2", 0.9, Outcome::fails);
  then.hashes = {{"kernel", "aa"}};
  now.hashes = {{"kernel", "bb"}};
  const auto rows = explain(with_line(then), with_line(now));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].key, "hashes.kernel");
  EXPECT_EQ(text_of(rows[0].b), "bb");
}

TEST(KnownGood, KeepsTheRecipeAndRefusesWhatIsNotGood) {
  const auto good = known_good_of(compare_record("aaaabbbbcccc", "KEEP", 0.05));
  ASSERT_TRUE(good);
  const auto* kept = good->as<KnownGoodRecord>();
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->of, "aaaabbbbcccc");
  EXPECT_EQ(kept->recipe->argv.at(0), "compare");
  EXPECT_FALSE(known_good_of(compare_record("aaaabbbbcccc", "REVERT", 0.05)));
  Record dirty = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  dirty.dirty = true;
  const auto refused = known_good_of(dirty);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(has(refused.error().fix, "commit"));
}

}  // namespace
}  // namespace flashmoe::workflow
