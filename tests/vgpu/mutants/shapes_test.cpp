// Each shape of a mistake and the correct program that looks like it, under twenty schedules: the one is found by its
// check in every one of them, the other in none.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "support/tree_for_test.hpp"
#include "vgpu/mutants/bench.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

using observe::Check;
constexpr auto mem = Check::memcheck, init = Check::initcheck, race = Check::racecheck, sync = Check::synccheck;

struct Shape {
  const char* name;
  std::uint32_t blocks, threads;
  std::optional<Check> check{};  // none: it is correct
  const char* says = "";         // part of the finding's message
  int n = 20;
};

constexpr std::uint32_t resident = 16;  // blocks; see Program::run()

std::vector<Shape> shapes() {
  const char* under_way = "still under way";
  const char* in_warp = "within a warp";
  const char* unordered = "nothing that orders them";
  const char* never_set = "never set";
  const char* some_only = "reached by some threads only";
  return {
      {"joined_copies", 1, 64},
      {"joined_copies_counted_apart", 1, 64},
      {"joined_stages", 1, 64},
      {"joined_copies_not_waited_for", 1, 64, sync, under_way},
      {"copies_that_nothing_joins", 1, 64, sync, under_way},
      {"copies_behind_the_arrival", 1, 64, sync, under_way},
      {"store_before_joined_copies", 1, 64, race, unordered},

      {"flag_all_fence", 2, 64},
      {"flag_all_fence_volatile", 2, 64},
      {"flag_one_fences", 2, 64},
      {"flag_released", 2, 64},
      {"flag_nobody_fences", 2, 64, race, unordered},
      {"flag_reader_does_not_fence", 2, 64, race, unordered},
      {"flag_all_fence_lightly", 2, 64, race, unordered},
      {"flag_block_fence", 2, 64, race, unordered},

      {"last_block_reads_volatile", 4, 64},
      {"last_block_reads_plainly", 4, 64, race, unordered},

      {"arrives_when_done", 1, 128},
      {"reads_after_arriving", 1, 128, race, "race"},
      {"writes_after_arriving", 1, 128, race, "race"},

      {"phases_of_two", 1, 64},
      {"phases_of_one", 1, 64, race, "race"},
      {"init_once", 1, 64},
      {"object_given_up", 1, 64},
      {"init_without_barrier", 1, 64, race, "race"},
      {"arrival_before_init", 1, 64, init, "mbarrier"},
      {"init_twice", 1, 64, race, "race"},
      {"stage_handed_back", 1, 128},
      {"stage_handed_back_early", 1, 128, race, unordered},

      {"shuffle_from_inside", 1, 32},
      {"shuffle_from_outside", 1, 32, init, never_set},
      {"shuffle_after_exit_chosen", 1, 32},
      {"shuffle_after_exit", 1, 32, init, never_set},
      {"shuffle_in_tiles", 1, 32},
      {"shuffle_across_tiles", 1, 32, init, never_set},

      {"plain_read_of_what_was_written", 1, 64},
      {"read_only_then_written", 1, 64},
      {"read_only_of_what_was_written", 1, 64, race, "ld.global.nc"},

      {"halves_synchronised", 1, 32},
      {"shared_flag", 1, 64},
      {"shared_early_out", 1, 64},
      {"halves_in_step", 1, 32, race, in_warp},

      {"last_of_an_array", 1, 64},
      {"generic_last_of_an_array", 1, 64},
      {"rows_of_one_array", 1, 64},
      {"members_of_one_struct", 1, 64},
      {"arrays_that_fill_shared_memory", 1, 64},
      {"extern_behind_arrays", 1, 64},
      {"one_past_an_array", 1, 64, mem, "past the end of"},
      {"generic_past_an_array", 1, 64, mem, "past the end of"},
      {"before_an_array", 1, 64, mem, "past the end of"},
      {"array_runs_into_extern", 1, 64, mem, "past the end of"},

      {"barrier_after_exit", 1, 64},
      {"barrier_after_exit_with_result", 1, 64},
      {"barrier_in_equal_rounds", 1, 64},
      {"barrier_for_half_a_warp", 1, 32, sync, some_only},
      {"barrier_for_one_warp", 1, 64, sync, some_only},
      {"barrier_in_unequal_rounds", 1, 64, sync, some_only},

      {"one_lane_acquires_for_all", 2, 32},
      {"one_lane_releases_for_all", 2, 32},
      {"half_a_warp_hands_over", 2, 32},
      {"lanes_take_tickets", 1, 32},
      {"one_lane_acquires", 2, 32, race, unordered},
      {"one_lane_releases", 2, 32, race, unordered},
      {"lanes_fence_and_one_releases", 2, 32, race, unordered},

      {"exchange_into_fresh_memory", 1, 64},
      {"exchange_gives_what_was_never_set", 1, 64, init, never_set},

      {"grid_meets", resident, 32},
      {"grid_meets", resident + 5, 32, sync, "5 of the grid's 21 CTAs have not started"},
  };
}

TEST(Shapes, MistakesAreFoundAndLookalikesAreNot) {
  const std::string source = text_of_file(in_sources("tests/vgpu/mutants/shapes.cu"));
  const auto ptx = compile(source, "shapes");
  ASSERT_TRUE(ptx) << ptx.error().to_string();
  const auto module = ptx::parse(*ptx, "shapes.ptx");
  ASSERT_TRUE(module) << module.error().to_string();
  std::size_t mistakes = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const auto program = Program::load(*module, shape.name);
    ASSERT_TRUE(program) << program.error().to_string();
    Case how{.name = shape.name, .grid = {shape.blocks}, .block = {shape.threads}, .n = shape.n, .in_count = 64};
    how.out_count = 1024;
    how.dynamic_shared_bytes = std::string(shape.name).find("extern") != std::string::npos ? 64 * 4 : 0;
    mistakes += shape.check ? 1 : 0;
    for (std::uint64_t number = 0; number < schedules; ++number) {
      const auto seen = (*program)->run(how, schedule(number));
      ASSERT_TRUE(seen) << seen.error().to_string();
      bool right = !shape.check && seen->findings.empty() && seen->fault.kind == exec::Fault::Kind::none;
      for (const observe::Finding& finding : seen->findings) {
        right = right || (shape.check == finding.check && finding.message.find(shape.says) != std::string::npos);
      }
      if (right) continue;
      ADD_FAILURE() << "schedule " << number << ": " << seen->fault.message << "\n" << all_text(seen->findings);
      break;
    }
  }
  std::printf("%zu mistakes and %zu correct programs under %d schedules each\n", mistakes, shapes().size() - mistakes,
              static_cast<int>(schedules));
}

}  // namespace
}  // namespace flashmoe::vgpu::corpus
