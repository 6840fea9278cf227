#include "workflow/runner/crash.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace flashmoe::workflow {
namespace {

Finished killed_by(int signal, const std::string& said = {}) {
  Finished how;
  how.signal = signal;
  how.err = said;
  return how;
}

TEST(Crash, MemoryIsToldApart) {
  EXPECT_TRUE(ran_out_of_memory(killed_by(SIGKILL), 3, 4));
  EXPECT_FALSE(ran_out_of_memory(killed_by(SIGKILL), 3, 3)) << "somebody killed it, and not for memory";
  EXPECT_TRUE(ran_out_of_memory(killed_by(SIGKILL), std::nullopt, std::nullopt)) << "who else would";
  EXPECT_TRUE(
      ran_out_of_memory(killed_by(SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'"), 3, 3));
  EXPECT_FALSE(ran_out_of_memory(killed_by(SIGABRT, "Assertion failed"), 3, 3));
  EXPECT_FALSE(ran_out_of_memory(killed_by(SIGSEGV), 3, 4));
}

TEST(Crash, SaysAddressAndSymbol) {
  EXPECT_EQ(place_of(R"({"fault":true,"address":16,"module":"/lib/libm.so.6","module_offset":64,"symbol":"expf",)"
                     R"("symbol_offset":4})",
                     "/tmp/kernel.so"),
            " at address 0x10, in expf+0x4 of libm.so.6");
  EXPECT_EQ(place_of(R"({"fault":true,"address":0})", "/tmp/kernel.so"), " at address 0x0");
}

// The worker is not trusted: whatever it says is text, and not long.
TEST(Crash, LastWordsAreBounded) {
  EXPECT_EQ(place_of("", "k"), "");
  EXPECT_EQ(place_of("[1, 2]", "k"), "");
  EXPECT_EQ(place_of(R"({"address":"x","module":7,"module_offset":-1})", "k"), "");
  const std::string told =
      place_of(R"({"module":"m","symbol":")" + std::string(5000, 'a') + R"(\u001b[2J","symbol_offset":1})", "k");
  EXPECT_LT(told.size(), 300U);
  EXPECT_EQ(told.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace flashmoe::workflow
