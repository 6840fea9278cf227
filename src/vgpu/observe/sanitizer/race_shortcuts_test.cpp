// Reads that are put off, rows that are one cell, lanes that are taken together: the same findings, word for word, as
// lane by lane. Programs are drawn at random, so that most of them race somewhere, and in many ways.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe {
namespace {

class Program {
 public:
  explicit Program(std::uint32_t seed) : random_(seed) {
    text_ = R"(
  .shared .align 128 .b8 s[4096];
)" + exec::prologue() +
            R"(
  shr.u32 %r6, %r1, 5;
  mov.u32 %r30, s;
  mov.u32 %r10, 7; mov.u32 %r11, %r1; mov.u32 %r12, %r2; mov.u32 %r13, 1;
  mov.b16 %h1, 3;
  mov.b64 %rd10, 5;
)";
    const int steps = 10 + draw(40);
    for (int i = 0; i < steps; ++i) step();
    text_ += "  cp.async.wait_all;\n  ret;\n";
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  int draw(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  void line(const std::string& one) { text_ += "  " + one + "\n"; }
  static std::string number(int one) { return std::to_string(one); }

  // %p1: who takes part.
  std::string guard() {
    switch (draw(8)) {
      case 0:
        line("setp.eq.u32 %p1, %r6, " + number(draw(4)) + ";");
        return "@%p1 ";
      case 1:
        line("setp.ne.u32 %p1, %r6, " + number(draw(4)) + ";");
        return "@%p1 ";
      case 2:
        line("setp.lt.u32 %p1, %r3, " + number(1 + draw(31)) + ";");
        return "@%p1 ";
      case 3:
        line("setp.eq.u32 %p1, %r1, " + number(draw(128)) + ";");
        return "@%p1 ";
      default:
        return "";
    }
  }

  // %r20: an offset of the lane, aligned to `bytes`, below 4096.
  void offset(int bytes) {
    const std::string wide = number(bytes);
    switch (draw(7)) {
      case 0:  // a row, the same for all warps
        line("mul.lo.u32 %r20, %r3, " + wide + ";");
        break;
      case 1:  // a row of the warp
        line("mul.lo.u32 %r20, %r1, " + wide + ";");
        break;
      case 2:  // one place
        line("mov.u32 %r20, 0;");
        break;
      case 3:  // one place of the warp
        line("mul.lo.u32 %r20, %r6, " + number(bytes * (1 + draw(8))) + ";");
        break;
      case 4:  // a tile
        line("and.b32 %r20, %r3, 7; shr.u32 %r21, %r3, 3; mul.lo.u32 %r20, %r20, " + wide + ";");
        line("mad.lo.u32 %r20, %r21, " + number(bytes * 33) + ", %r20;");
        break;
      case 5:  // two halves that read the same
        line("and.b32 %r20, %r3, 15; mul.lo.u32 %r20, %r20, " + wide + ";");
        break;
      default:  // no order at all
        line("mul.lo.u32 %r20, %r3, 40503; shr.u32 %r20, %r20, 5; and.b32 %r20, %r20, 127;");
        line("mul.lo.u32 %r20, %r20, " + wide + ";");
        break;
    }
    const int aligned = draw(3) == 0 ? bytes : 128;
    line("add.u32 %r20, %r20, " + number(draw(4) * aligned * (1 + draw(3))) + "; and.b32 %r20, %r20, 4095;");
  }

  // Where %r20 is, in one of the two memories.
  std::string place(bool is_shared) {
    if (is_shared) {
      line("add.u32 %r22, %r30, %r20;");
      return "[%r22]";
    }
    line("cvt.u64.u32 %rd20, %r20; add.s64 %rd20, %rd20, %rd1;");
    return "[%rd20]";
  }

  void plain(bool is_shared, bool is_store) {
    struct Kind {
      int bytes;
      const char* type;
      const char* value;
    };
    static constexpr Kind kinds[] = {{1, "u8", "%h1"},    {2, "u16", "%h1"},
                                     {4, "u32", "%r10"},  {4, "u32", "%r11"},
                                     {8, "u64", "%rd10"}, {16, "v4.u32", "{%r10, %r11, %r12, %r13}"}};
    const Kind& kind = kinds[draw(3) == 0 ? draw(6) : 2 + draw(4)];
    offset(kind.bytes);
    const std::string at = place(is_shared), who = guard(), space = is_shared ? "shared." : "global.";
    const std::string extra = kind.bytes <= 8 && draw(8) == 0 ? "volatile." : "";
    line(who + (is_store ? "st." : "ld.") + extra + space + kind.type + " " +
         (is_store ? at + ", " + kind.value : kind.value + std::string(", ") + at) + ";");
  }

  void step() {
    switch (draw(16)) {
      case 0:
      case 1:
      case 2:
        line("bar.sync 0;");
        break;
      case 3:
        line("bar.warp.sync 0xffffffff;");
        break;
      case 4:
        line(draw(2) == 0 ? "membar.gl;" : "membar.cta;");
        break;
      case 5: {
        offset(4);
        const bool is_shared = draw(2) == 0;
        const std::string at = place(is_shared), who = guard();
        line(who + "atom." + (is_shared ? "shared" : "global") + ".add.u32 %r14, " + at + ", %r13;");
        break;
      }
      case 6: {  // two of the four warps meet
        line("setp.lt.u32 %p2, %r6, 2;");
        line("@%p2 bar.sync 1, 64;");
        break;
      }
      case 7: {
        const int bytes = draw(2) == 0 ? 4 : 16;
        offset(bytes);
        line("cvt.u64.u32 %rd20, %r20; add.s64 %rd20, %rd20, %rd1;");
        offset(bytes);
        line("add.u32 %r22, %r30, %r20;");
        const std::string who = guard();
        line(who + (bytes == 4 ? "cp.async.ca" : "cp.async.cg") + ".shared.global [%r22], [%rd20], " + number(bytes) +
             ";");
        line("cp.async.commit_group;");
        break;
      }
      case 8:
        line("cp.async.wait_group " + number(draw(3)) + ";");
        break;
      case 9:
        if (draw(6) == 0) line("setp.eq.u32 %p3, %r6, 3;\n  @%p3 exit;");
        break;
      case 10:
        plain(false, true);
        break;
      case 11:
        plain(false, false);
        break;
      case 12:
        plain(true, true);
        break;
      default:
        plain(true, false);
        break;
    }
  }

  std::mt19937 random_;
  std::string text_;
};

std::vector<std::string> races_of(const std::string& text, bool by_lane, std::uint64_t seed) {
  exec::PtxRunner runner(text, exec::Mode::observed);
  WatchOptions options;
  options.initcheck = options.memcheck = options.counters = false;
  options.races_by_lane = by_lane;
  Watch watch(options);
  runner.launch.observer = &watch;
  runner.launch.schedule.seed = seed;
  static_cast<void>(runner.run(3, 128));
  std::vector<std::string> told;
  // Addresses of the buffer differ from run to run.
  for (const Finding& finding : watch.log().findings()) {
    Finding moved = finding;
    if (moved.address && moved.space == "global") *moved.address -= runner.buffer;
    told.push_back(moved.to_text() + " x" + std::to_string(finding.times));
  }
  return told;
}

TEST(RaceShortcuts, FindWhatIsFoundLaneByLane) {
  std::size_t races = 0, clean = 0;
  for (std::uint32_t seed = 1700; seed < 2100; ++seed) {
    const Program program(seed);
    const std::uint64_t schedule = seed % 3 == 0 ? 0 : seed;
    const auto expected = races_of(program.text(), true, schedule);
    const auto found = races_of(program.text(), false, schedule);
    ASSERT_EQ(found, expected) << "seed " << seed << "\n" << program.text();
    races += expected.size();
    clean += expected.empty() ? 1 : 0;
  }
  EXPECT_GT(races, 400u);
  EXPECT_GT(clean, 4u);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
