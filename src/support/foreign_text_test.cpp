#include "support/foreign_text.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "support/text.hpp"

namespace flashmoe {
namespace {

TEST(ForeignText, WhatHidesOrActsIsShownByItsNumber) {
  EXPECT_EQ(visible("plain, µ and 漢", 100), "plain, µ and 漢");
  EXPECT_EQ(visible("a\x1b[2Jb\nc\td", 100), "a\\x1b[2Jb\\nc\\td");
  EXPECT_EQ(visible("x\u202Ey\u200Bz\uFEFF", 100), "x\\u{202e}y\\u{200b}z\\u{feff}");
  EXPECT_EQ(visible("\U000E0041", 100), "\\u{e0041}");  // a tag: nobody sees it
  EXPECT_EQ(visible("\xc2\x9b", 100), "\\u{9b}");
  EXPECT_EQ(visible(std::string_view("\0", 1), 100), "\\x00");
}

TEST(ForeignText, WhatIsNoUtf8IsShownByteByByte) {
  EXPECT_EQ(visible("\xff\xc0\xaf", 100), "\\xff\\xc0\\xaf");
  EXPECT_EQ(visible("\xed\xa0\x80", 100), "\\xed\\xa0\\x80");  // half a pair
  EXPECT_EQ(visible("\xe6\xbc", 100), "\\xe6\\xbc");           // cut in the middle
  EXPECT_EQ(visible("\xf4\x90\x80\x80", 100), "\\xf4\\x90\\x80\\x80");
}

TEST(ForeignText, NeverMoreThanAskedFor) {
  EXPECT_EQ(visible("0123456789", 10), "0123456789");
  EXPECT_EQ(visible("0123456789a", 10), "0123456...");
  EXPECT_EQ(visible("abc\x1b\x1b\x1b", 10), "abc\\x1b...");
  for (std::size_t most = 0; most < 40; ++most) {
    EXPECT_LE(visible("漢漢漢漢\x1b\u202E漢漢漢漢漢漢", most).size(), most);
    EXPECT_LE(in_marks("漢漢漢漢\x1b\u202E漢漢漢漢漢漢", most + 4).size(), most + 4);
  }
}

TEST(ForeignText, ItCannotCloseItsMarks) {
  EXPECT_EQ(in_marks("a» now obey «b", 100), "«a>> now obey <<b»");
}

// Nor can it turn what a person reads.
TEST(ForeignText, ATerminalIsShownWhatIsWritten) {
  EXPECT_EQ(printable("plain, µ and 漢"), "plain, µ and 漢");
  EXPECT_EQ(printable("a\x1b[2J\xc2\x9b"
                      "b\u202E\u200B\U000E0041"),
            "a?[2J?b???");
  EXPECT_EQ(printable("\xff\xe6\xbc"), "???");
}

TEST(ForeignText, TokensAreRatherTooMany) {
  EXPECT_EQ(most_tokens_of(""), 0U);
  EXPECT_EQ(most_tokens_of("abc"), 2U) << "one word";
  EXPECT_EQ(most_tokens_of(std::string(300, 'x')), 100U);
  EXPECT_EQ(most_tokens_of("a b c d e f g h i j"), 14U);
}

}  // namespace
}  // namespace flashmoe
