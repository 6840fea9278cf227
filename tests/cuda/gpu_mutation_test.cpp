// Tests that cannot fail prove nothing. The forward kernel with one thing taken out, compiled by NVRTC: each time the
// virtual GPU's checks, its counters or the oracle must notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cuda/gpu_run.hpp"
#include "cuda/mutated_kernel.hpp"
#include "kernels/cuda/launch/forward_params.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& mutation_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);
    setenv("VGPU_SCHEDULE", "adversarial", 0);
    return Gpu();
  }();
  return only;
}

// Runs the case on the kernel of its plan, with texts replaced. Results are in the case then.
nlohmann::json report_of(AttentionCase& one, const fms_plan_options& options, std::span<const Mutation> mutations) {
  fms_attention_plan plan{};
  if (fms_attention_plan_make(mutation_gpu().context(), &one.problem(), &options, &plan, nullptr) != FMS_OK)
    throw std::runtime_error("no plan");
  const cuda::InstanceAxes axes = cuda::axes_of(plan.instance);
  const std::vector<char> image = mutated_kernel(axes, mutations);
  const auto module = must(runtime::Module::load(mutation_gpu().device(), std::as_bytes(std::span(image))));
  const runtime::Function kernel = must(module->function(axes.name()));

  const DeviceCase there(mutation_gpu(), one);
  runtime::Buffer workspace =
      must(runtime::Buffer::create(mutation_gpu().device(), std::max<std::size_t>(plan.workspace_bytes, 4)));
  must(workspace.write(std::vector<std::byte>(workspace.bytes())));
  constexpr double no_l2_bytes = 0;
  cuda::ExtendedParams params =
      cuda::forward_params(plan, axes, there.args(), reinterpret_cast<std::byte*>(workspace.address()), no_l2_bytes);
  const cuda::LaunchGrid grid = cuda::launch_grid(params);
  runtime::Geometry geometry;
  geometry.grid = {grid.x, grid.y, grid.z};
  geometry.block = {static_cast<unsigned>(plan.threads), 1, 1};
  geometry.dynamic_shared_bytes = static_cast<unsigned>(axes.shared_bytes());
  void* arguments[] = {&params};
  static_cast<void>(mutation_gpu().reports());
  must(kernel.launch(geometry, arguments));
  must(mutation_gpu().device()->synchronize());
  there.copy_back(one);
  return nlohmann::json::parse(mutation_gpu().reports().at(0));
}

struct Noticed {
  bool finding, wrong, conflict;
};

// Causal, with whole blocks before the diagonal, key warps and splits, of which the first ends with a whole block. The
// scale lets scores grow so far from block to block that tops have to be raised; the last value is seen by the last row
// alone, and is none that a weight of 0 would hide.
Noticed noticed(const Mutation& mutation, int64_t head_dim = 64, int32_t q_tile = 32, int32_t kv_splits = 2,
                float softcap = 0, int64_t only_keys = 0, int64_t wild_key = -1) {
  const int64_t keys = only_keys != 0 ? only_keys : head_dim == 64 ? 1032 : 280;
  fms_attention_problem problem = simple_problem(FMS_F16, {1, 1, 1, 40, keys, head_dim});
  problem.window_right = 0;
  problem.softmax_scale = 1.0F;
  problem.softcap = softcap;
  AttentionCase one = normal_case(problem);
  one.set(Tensor::kV, one.v_offset(0, 0, wild_key >= 0 ? wild_key : keys - 1) + 5,
          std::numeric_limits<double>::infinity());
  const auto report = report_of(one, plan_options(0, kv_splits, q_tile), {&mutation, 1});
  return {!report.at("findings").empty(), !judge(one, OracleAnswer(one)).complaint.empty(),
          metric(report, "vgpu__shared_bank_conflicts.sum") > 0};
}

TEST(Mutations, TheKernelAsItIsIsClean) {
  const Noticed none = noticed({"nothing", nullptr, nullptr, nullptr});
  EXPECT_FALSE(none.finding);
  EXPECT_FALSE(none.wrong);
  EXPECT_FALSE(none.conflict);
}

// One at a time: there is no wait, barrier or fence too many either.
TEST(Mutations, EveryWaitBarrierAndFenceIsMissed) {
  constexpr Mutation synchronisation[] = {
      {"a wait for copies", "attention/walk.cuh", "wait_for_copies<0>();", ""},
      {"the wait for the first copies", "attention/walk.cuh", "wait_for_copies<1>();", ""},
      {"a barrier of the walk", "attention/walk.cuh", "__syncthreads();", ""},
      {"a barrier of the end", "attention/finish.cuh", "__syncthreads();", ""},
      {"a fence beside the counter", "attention/finish.cuh", "__threadfence();", ""},
      {"the warp's barrier before the result", "attention/finish.cuh", "__syncwarp();", ""},
  };
  for (Mutation mutation : synchronisation) {
    const int places = places_of(mutation);
    for (mutation.place = 0; mutation.place < places; ++mutation.place)
      // Long heads have one place for a block of keys or of values, and there queries have one of their own, or, beside
      // softcap, pass through that of the values; what key warps of theirs tell each other reaches beyond the keys.
      EXPECT_TRUE(noticed(mutation).finding || noticed(mutation, 256, 64, 1).finding ||
                  noticed(mutation, 128, 64, 1, 30).finding || noticed(mutation, 256, 32, 1).finding)
          << mutation.name << ", place " << mutation.place;
  }
}

TEST(Mutations, WrongRulesGiveWrongResults) {
  constexpr Mutation rules[] = {
      {"the mask", "attention/score_rules.cuh", "s = minus_infinity();", "{}"},
      {"the fading of what was met before", "attention/row_state.cuh", "sum[h] *= factor;", ""},
      {"the fading of what a key warp found", "attention/row_state.cuh", "all.x += its.x * fades.of[h][w];",
       "all.x += its.x;"},
      {"whose columns they are", "attention/row_state.cuh", "return (w - key_warp - 1 + Shape::key_warps)",
       "return (w - key_warp + Shape::key_warps)"},
      {"the sums of key warps", "attention/row_state.cuh", "sum[h] += found[w].y * fades.of[h][w];",
       "sum[h] = found[w].y;"},
      {"the rows of a key warp", "attention/tile_copy.cuh", "tile_.row_warp() * Shape::warp_rows + begin +",
       "tile_.row_warp() * Shape::warp_rows +"},
      {"the order of a pair", "atoms/mma.cuh", ": \"f\"(high), \"f\"(low)", ": \"f\"(low), \"f\"(high)"},
      {"the unit of splits", "attention/sequence.cuh", "min(begin + units * split_unit, keys.hi)", "keys.hi"},
  };
  for (const Mutation& mutation : rules) EXPECT_TRUE(noticed(mutation).wrong) << mutation.name;
}

// Of tiles whose warps own their keys: with a product ahead, with two tiles of rows, with neither, and of the longest
// heads.
TEST(Mutations, WrongFadingIsNoticed) {
  constexpr Mutation fading[] = {
      {"how far weights may grow", "attention/row_state.cuh", "> most_growth", "> 4 * most_growth"},
      {"where tops have grown", "attention/row_state.cuh", "is_any |= has_grown;", ""},
      {"the fading of sums", "attention/row_state.cuh", "d == 0 ? sum + h : none", "none"},
      {"the fading of eight tiles", "atoms/fade.cuh", "mul.f32 %28, %28, a;", ""},
      {"whose fading it is", "atoms/fade.cuh", "\"f\"(by.old_tops[1])", "\"f\"(by.old_tops[0])"},
  };
  struct {
    int64_t head_dim;
    int32_t q_tile;
  } constexpr tiles[] = {{64, 64}, {64, 128}, {128, 64}, {256, 64}};
  for (const auto& tile : tiles)
    for (const Mutation& mutation : fading)
      EXPECT_TRUE(noticed(mutation, tile.head_dim, tile.q_tile, 1).wrong)
          << mutation.name << ", D = " << tile.head_dim << ", " << tile.q_tile << " rows";
}

// Of the longest heads.
TEST(Mutations, WrongWildValuesAreNoticed) {
  constexpr Mutation longest[] = {
      {"the zeros", "attention/walk.cuh", "copy_.clear_my_wild_values(values_begin + stage);", ""},
      {"who sees wild values", "attention/walk.cuh", "if (met[0][i] != 0.0f)", "if (false)"},
  };
  EXPECT_FALSE(noticed({"nothing", nullptr, nullptr, nullptr}, 256, 64, 1).wrong);
  for (const Mutation& mutation : longest) EXPECT_TRUE(noticed(mutation, 256, 64, 1).wrong) << mutation.name;
}

// Of the longest heads too.
TEST(Mutations, WrongPiecesAreNoticed) {
  constexpr Mutation pieces[] = {
      {"where slices stand", "attention/walk.cuh", "return slice % 2 * Shape::ring.place_bytes;", "return 0;"},
      {"where parts stand", "attention/walk.cuh", "(part % 2 + Shape::ring.slices % 2)", "(Shape::ring.slices % 2)"},
      {"which slice it is", "attention/tile_copy.cuh", "slice * KeyRows::chunks", "0 * KeyRows::chunks"},
      {"which part it is", "attention/walk.cuh", "first + part * Shape::part_keys, keys_.mine.hi",
       "first + Shape::part_keys, keys_.mine.hi"},
      {"whose values are wild", "attention/walk.cuh", "first + part * Shape::part_keys, stage", "first, stage"},
      {"whose weights they are", "attention/walk.cuh", "if (its != part) return;", "if (its < part) return;"},
  };
  for (const Mutation& mutation : pieces) {
    const Noticed by = noticed(mutation, 256, 64, 1);
    EXPECT_TRUE(by.wrong || by.finding) << mutation.name;
  }
}

// A block that is the only one: of short heads, and piece by piece. The last value is wild, or one of the first piece.
TEST(Mutations, WrongOnlyBlocksAreNoticed) {
  const auto of_short = [](const Mutation& mutation) { return noticed(mutation, 64, 64, 1, 0, 40); };
  const auto in_pieces = [](const Mutation& mutation, int64_t wild_key = -1) {
    return noticed(mutation, 256, 64, 1, 0, 40, wild_key);
  };
  constexpr Mutation none = {"nothing", nullptr, nullptr, nullptr};
  EXPECT_FALSE(of_short(none).wrong);
  EXPECT_FALSE(in_pieces(none).wrong);
  EXPECT_FALSE(in_pieces(none, 10).wrong);
  constexpr Mutation careless = {"whether values are wild", "attention/walk.cuh",
                                 "if (meets_wild_values(first, part_stage(0)))",
                                 "if (meets_wild_values(first, part_stage(0)) && false)"};
  EXPECT_TRUE(of_short(careless).wrong);
  EXPECT_TRUE(in_pieces(careless, 10).wrong);
  constexpr Mutation forgetful = {"what is left to the edge", "attention/walk.cuh",
                                  "return 0;\n    }\n    if constexpr", "return 1;\n    }\n    if constexpr"};
  EXPECT_TRUE(of_short(forgetful).wrong);
  EXPECT_TRUE(in_pieces(forgetful, 10).wrong);
  EXPECT_TRUE(
      in_pieces({"whether scores are weights", "attention/walk.cuh", "if (done < 0) state", "state"}, 10).wrong);
  EXPECT_TRUE(in_pieces({"where it goes on", "attention/walk.cuh", "max(done, 0)", "0"}).wrong);
  EXPECT_TRUE(
      in_pieces({"later wild values", "attention/walk.cuh", "} else if (meets_wild_values(first, part_stage(part))) {",
                 "} else if (meets_wild_values(first, part_stage(part)) && false) {"})
          .wrong);
  const Noticed by = in_pieces({"the second part", "attention/walk.cuh", "copy_part<false>(first, 1);", ""});
  EXPECT_TRUE(by.wrong || by.finding);
}

// Where a warp has two tiles of rows.
TEST(Mutations, WrongSecondRowTilesAreNoticed) {
  constexpr Mutation second[] = {
      {"its queries", "attention/walk.cuh", "m, d, [&](auto offset)", "0, d, [&](auto offset)"},
      {"its scores", "attention/walk.cuh", "mma_16x8x16<T>(second, q.of[m], b[2], b[3], second);",
       "mma_16x8x16<T>(second, q.of[0], b[2], b[3], second);"},
      {"its weights", "attention/walk.cuh", "mma_16x8x16<T>(second, a.of[m], b[2], b[3], second);",
       "mma_16x8x16<T>(second, a.of[0], b[2], b[3], second);"},
      {"its rows", "attention/tile_place.cuh", "lane / 4 + 8 * h", "lane / 4 + 8 * (h % 2)"},
  };
  EXPECT_FALSE(noticed({"nothing", nullptr, nullptr, nullptr}, 64, 128).wrong);
  for (const Mutation& mutation : second) EXPECT_TRUE(noticed(mutation, 64, 128).wrong) << mutation.name;
}

// What only some kernels have: values of another size, a second bias and biases of groups. Kernels without them are
// not compiled anew. None of these leaves its tensors: a fault would end the process's other tests.
TEST(Mutations, WrongTermsAndSizesAreNoticed) {
  constexpr Mutation terms[] = {
      {"nothing", nullptr, nullptr, nullptr},
      {"the second bias", "attention/score_rules.cuh", "i < 2; ++i) {\n      const BiasTerm",
       "i < 1; ++i) {\n      const BiasTerm"},
      {"the first bias twice", "attention/score_rules.cuh", "if (i == 1) return p_.bias2;", ""},
      {"groups", "attention/score_rules.cuh", "divide(tile_.sequence.batch, bias.by_group)", "0"},
      {"the kind of a bias", "attention/score_rules.cuh", "bias.kv], bias.kind)", "bias.kv], p_.bias_kind)"},
      {"the kind of fours", "attention/score_rules.cuh", "add_fours(scores, bias.kind,",
       "add_fours(scores, p_.bias_kind,"},
      {"whose fours they are", "attention/score_rules.cuh", "is_second_first = tile_.lane % 4 >= 2",
       "is_second_first = false"},
  };
  fms_attention_problem two = simple_problem(FMS_F16, {3, 2, 1, 20, 300, 64});
  two.features |= FMS_BIAS | FMS_BIAS2;
  two.bias_dtype = FMS_F16;
  two.bias = {2 * 20 * 300, 20 * 300, 300, 1, 2};
  two.bias2_dtype = FMS_BF16;
  two.bias2 = {300, 0, 0, 1, 1};
  for (const Mutation& mutation : terms) {
    AttentionCase one = normal_case(two);
    const auto report = report_of(one, plan_options(0, 1, 32), {&mutation, 1});
    const bool is_noticed = !report.at("findings").empty() || !judge(one, OracleAnswer(one)).complaint.empty();
    EXPECT_EQ(is_noticed, mutation.file != nullptr) << mutation.name;
  }
  constexpr Mutation sizes[] = {
      {"nothing", nullptr, nullptr, nullptr},
      {"the stage of values", "attention/walk.cuh", "return stage != 0 ? Shape::part_bytes : 0;", "return stage;"},
      {"where queries are", "attention/walk.cuh", "values_begin + Shape::places * Shape::part_bytes",
       "2 * Shape::places * Shape::part_bytes"},
      {"the size of values", "attention/tile_copy.cuh", "return p_.value_dim;", "return p_.value_dim - 8;"},
      {"rows of values", "attention/walk.cuh", "ValueRows::turned(values_at_, d)", "Rows::turned(values_at_, d)"},
  };
  fms_attention_problem pair = simple_problem(FMS_F16, {1, 1, 1, 40, 300, 192});
  pair.value_dim = 120;
  pair.v = {300 * 120, 300 * 120, 120};
  pair.o = {40 * 120, 40 * 120, 120};
  for (const Mutation& mutation : sizes) {
    AttentionCase one = normal_case(pair);
    const auto report = report_of(one, plan_options(0, 1, 64), {&mutation, 1});
    const bool is_noticed = !report.at("findings").empty() || !judge(one, OracleAnswer(one)).complaint.empty() ||
                            one.stray_write().has_value();
    EXPECT_EQ(is_noticed, mutation.file != nullptr) << mutation.name;
  }
}

// Blocks that every row sees need no look at their values, and one that few keys are in costs no more than they do.
TEST(Mutations, BlocksThatEveryRowSeesAreCheap) {
  constexpr Mutation careful[] = {{"values of all blocks", "attention/walk.cuh", "!is_whole(first) && ", ""}};
  double of_whole_blocks = 0;
  for (const int64_t keys : {128, 136}) {
    const fms_attention_problem problem = simple_problem(FMS_F16, {1, 1, 1, 128, keys, 64});
    AttentionCase as_it_is = normal_case(problem), with_care = normal_case(problem);
    const auto instructions = [](AttentionCase& one, std::span<const Mutation> mutations) {
      return metric(report_of(one, plan_options(0, 1, 16), mutations), "vgpu__ptx_inst_executed.sum");
    };
    const double now = instructions(as_it_is, {}), before = instructions(with_care, careful);
    std::cout << "  128 queries, " << keys << " keys, D = 64: " << now << " instructions, " << before
              << " with care for all blocks (virtual)\n";
    if (keys % 64 == 0) {
      of_whole_blocks = now;
    } else {
      EXPECT_LE(now, 0.995 * before);
      EXPECT_LE(now, 1.5 * of_whole_blocks);  // a third block
    }
    EXPECT_EQ(as_it_is.output_bytes(), with_care.output_bytes());
  }
}

TEST(Mutations, RowsWithoutASwizzleMeetInBanks) {
  EXPECT_TRUE(noticed({"the swizzle", "atoms/shared_memory.cuh", "chunk ^ (row", "chunk | 0 & (row"}).conflict);
}

}  // namespace
}  // namespace flashmoe::testing
