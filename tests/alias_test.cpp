// What run writes shares no memory with what it still reads: refused by name before anything is written. Elements
// count, not ranges: views that interleave in one buffer are fine, o may be q, and what no sequence uses is nobody's.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "support/number_format.hpp"
#include "support/simple_case.hpp"
#if defined(FMS_COUNTING_DRIVER)
#include "cuda/launch_times.hpp"
#endif

namespace flashmoe::testing {
namespace {

// A buffer of elements, and a run whose tensors are views of it.
class Buffer {
 public:
  Buffer(fms_dtype dtype, size_t elements, uint64_t seed = 3) : dtype_(dtype), bytes_(elements * element_bytes(dtype)) {
    Random random(seed);
    for (size_t i = 0; i < elements; ++i) store(bytes_.data(), dtype, static_cast<int64_t>(i), random.normal());
  }
  void* at(int64_t element) { return bytes_.data() + element * static_cast<int64_t>(element_bytes(dtype_)); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  fms_dtype dtype_;
  std::vector<uint8_t> bytes_;
};

struct Outcome {
  fms_status status = FMS_OK;
  fms_error error{};
};

Outcome run(const fms_context* context, const fms_attention_problem& problem, fms_attention_args args,
            const fms_plan_options& options = plan_options(2, 0, 0)) {
  args.struct_size = sizeof args;
  Outcome outcome;
  fms_attention_plan plan;
  outcome.status = fms_attention_plan_make(context, &problem, &options, &plan, &outcome.error);
  if (outcome.status != FMS_OK) return outcome;
  const FencedBuffer workspace(plan.workspace_bytes, Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
  outcome.status = fms_attention_run(context, &plan, &args, workspace.bytes() == 0 ? nullptr : workspace.data(),
                                     workspace.bytes(), nullptr, &outcome.error);
  return outcome;
}

void expect_refused(const Outcome& outcome, const std::string& written, const std::string& read) {
  EXPECT_EQ(outcome.status, FMS_INVALID_ARGUMENT) << written << " and " << read;
  EXPECT_EQ(std::string(outcome.error.argument), written) << outcome.error.message;
  EXPECT_NE(std::string(outcome.error.message).find("shares memory with " + read), std::string::npos)
      << outcome.error.message;
}

constexpr int64_t kBatch = 2, kHeads = 2, kLength = 40, kDim = 64, kTensor = kBatch * kHeads * kLength * kDim;

// Each pointer of a run, as a place in one buffer.
TEST(Alias, EveryOutputOnEveryInputIsRefused) {
  const Context context = make_context(FMS_ISA_AUTO);
  fms_attention_problem problem = simple_problem(FMS_F32, {kBatch, kHeads, kHeads, kLength, kLength, kDim});
  problem.features = FMS_LSE | FMS_BIAS | FMS_SINKS | FMS_KV_LENGTHS | FMS_MASK;
  problem.bias_dtype = FMS_F32;
  problem.bias = {0, 0, kLength, 1, 1};
  problem.mask = {0, 0, 4, 4, 1};  // of bytes, as far apart as floats
  const std::vector<int32_t> lengths(kBatch, kLength);
  const char* inputs[] = {"args.q", "args.k", "args.v", "args.bias", "args.sinks", "args.kv_lengths", "args.mask"};
  const char* outputs[] = {"args.o", "args.lse"};
  for (const char* output : outputs) {
    for (const char* input : inputs) {
      for (const int64_t shift : {-1, 1}) {  // one element in common at the input's end, and at its beginning
        Buffer memory(FMS_F32, 10 * kTensor);
        fms_attention_args args{};
        float* place = static_cast<float*>(memory.at(0));
        std::vector<std::pair<std::string, float*>> places;
        for (const char* name : inputs) places.emplace_back(name, place += kTensor);
        args.o = place + kTensor;
        args.lse = place + 2 * kTensor;
        std::memcpy(places[5].second, lengths.data(), sizeof(int32_t) * kBatch);
        args.q = places[0].second;
        args.k = places[1].second;
        args.v = places[2].second;
        args.bias = places[3].second;
        args.sinks = places[4].second;
        args.kv_lengths = reinterpret_cast<const int32_t*>(places[5].second);
        args.mask = reinterpret_cast<const uint8_t*>(places[6].second);
        ASSERT_EQ(run(context.get(), problem, args).status, FMS_OK);

        const bool is_o = output == outputs[0];
        const int64_t sizes[] = {kTensor, kTensor, kTensor, kLength * kLength, kHeads, kBatch, 2 * kLength - 1};
        for (size_t i = 0; i < std::size(inputs); ++i) {
          if (inputs[i] != input) continue;
          const int64_t output_size = is_o ? kTensor : kTensor / kDim;
          float* common = places[i].second + (shift > 0 ? sizes[i] - 1 : 1 - output_size);
          (is_o ? args.o : *reinterpret_cast<void**>(&args.lse)) = common;
        }
        const std::vector<uint8_t> before = memory.bytes();
        const Outcome outcome = run(context.get(), problem, args);
        EXPECT_EQ(outcome.status, FMS_INVALID_ARGUMENT) << output << " on " << input;
        EXPECT_STREQ(outcome.error.argument, output) << outcome.error.message;
        EXPECT_TRUE(memory.bytes() == before) << "something was written";
      }
    }
  }
}

TEST(Alias, OIsNotKOrV) {
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    for (const fms_dtype dtype : kAllDtypes) {
      const fms_attention_problem problem = simple_problem(dtype, {kBatch, kHeads, kHeads, kLength, kLength, kDim});
      Buffer q(dtype, kTensor), k(dtype, kTensor), v(dtype, kTensor), lse(FMS_F32, kTensor);
      fms_attention_args args{};
      args.q = q.at(0);
      args.k = k.at(0);
      args.v = v.at(0);
      args.lse = static_cast<float*>(lse.at(0));
      args.o = k.at(0);
      expect_refused(run(context.get(), problem, args), "args.o", "args.k");
      args.o = v.at(0);
      expect_refused(run(context.get(), problem, args), "args.o", "args.v");
    }
  }
}

TEST(Alias, OutputsAreApartFromEachOtherAndTheWorkspace) {
  const Context context = make_context(FMS_ISA_AUTO);
  const fms_attention_problem problem = simple_problem(FMS_F32, {kBatch, kHeads, kHeads, kLength, kLength, kDim});
  Buffer q(FMS_F32, kTensor), k(FMS_F32, kTensor), o(FMS_F32, 2 * kTensor);
  fms_attention_args args{};
  args.struct_size = sizeof args;
  args.q = q.at(0);
  args.k = args.v = k.at(0);
  args.o = o.at(0);
  args.lse = static_cast<float*>(o.at(kTensor - 1));
  expect_refused(run(context.get(), problem, args), "args.o", "args.lse");
  args.lse = static_cast<float*>(o.at(kTensor));
  EXPECT_EQ(run(context.get(), problem, args).status, FMS_OK);

  fms_attention_plan plan;
  ASSERT_EQ(fms_attention_plan_make(context.get(), &problem, nullptr, &plan, nullptr), FMS_OK);
  ASSERT_GT(plan.workspace_bytes, 0u);
  std::vector<uint8_t> memory(plan.workspace_bytes + kTensor * 4 + 2 * FMS_WORKSPACE_ALIGNMENT);
  auto start = reinterpret_cast<uintptr_t>(memory.data());
  start += FMS_WORKSPACE_ALIGNMENT - start % FMS_WORKSPACE_ALIGNMENT;
  const auto run_with = [&](uintptr_t output) {
    args.o = reinterpret_cast<void*>(output);
    Outcome outcome;
    outcome.status = fms_attention_run(context.get(), &plan, &args, reinterpret_cast<void*>(start),
                                       plan.workspace_bytes, nullptr, &outcome.error);
    return outcome;
  };
  expect_refused(run_with(start + plan.workspace_bytes - 4), "args.o", "workspace");
  EXPECT_EQ(run_with(start + plan.workspace_bytes).status, FMS_OK);
}

// Where in a buffer (B, S, slots, H, D) a slot is, as (B, H, S, D).
fms_strides slot_strides(int64_t slots) {
  return {kLength * slots * kHeads * kDim, kDim, slots * kHeads * kDim};
}

// q, k, v and o side by side in every row, for every kernel: right, and to the bit what separate buffers give.
TEST(Alias, SlotsOfOnePackedBufferAreFine) {
  constexpr int64_t kSlots = 4, kSlot = kHeads * kDim;
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    for (const fms_dtype dtype : kAllDtypes) {
      for (const int64_t splits : {1, 3}) {
        fms_attention_problem problem = simple_problem(dtype, {kBatch, kHeads, kHeads, kLength, kLength, kDim});
        problem.features = 0;
        problem.q = problem.k = problem.v = problem.o = slot_strides(kSlots);
        Buffer packed(dtype, kSlots * kTensor), separate(dtype, kSlots * kTensor);
        fms_attention_args args{};
        args.q = packed.at(0);
        args.k = packed.at(kSlot);
        args.v = packed.at(2 * kSlot);
        args.o = separate.at(3 * kSlot);
        const fms_plan_options options = plan_options(2, static_cast<int32_t>(splits), 0);
        ASSERT_EQ(run(context.get(), problem, args, options).status, FMS_OK);
        args.o = packed.at(3 * kSlot);
        const Outcome outcome = run(context.get(), problem, args, options);
        ASSERT_EQ(outcome.status, FMS_OK) << to_string(outcome.error);
        EXPECT_TRUE(packed.bytes() == separate.bytes()) << fms_cpu_isa_name(isa);

        args.o = packed.at(2 * kSlot + kDim - 1);  // one element of v in every row
        expect_refused(run(context.get(), problem, args, options), "args.o", "args.v");
      }
    }
  }
}

TEST(Alias, OMayBeQ) {
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    for (const fms_dtype dtype : kAllDtypes) {
      for (const Shape& shape : kLawShapes) {
        for (const fms_plan_options& options : {plan_options(1, 0, 0), plan_options(3, 0, 0), plan_options(3, 4, 0)}) {
          AttentionCase one = normal_case(simple_problem(dtype, shape));
          ASSERT_EQ(plan_and_run(context.get(), one, &options).status, FMS_OK);
          const fms_attention_args apart = one.args();
          const size_t bytes = one.buffers()[AttentionCase::kOutputBuffer].size();
          const std::vector<uint8_t> expected(static_cast<const uint8_t*>(apart.o),
                                              static_cast<const uint8_t*>(apart.o) + bytes);
          fms_attention_args in_place = apart;
          in_place.o = const_cast<void*>(in_place.q);
          const Outcome outcome = run(context.get(), one.problem(), in_place, options);
          ASSERT_EQ(outcome.status, FMS_OK) << to_string(outcome.error);
          EXPECT_EQ(std::memcmp(in_place.o, expected.data(), bytes), 0)
              << fms_cpu_isa_name(isa) << ' ' << one.describe();
        }
      }
    }
  }
}

TEST(Alias, OIsAllOfQOrNothingOfIt) {
  const Context context = make_context(FMS_ISA_AUTO);
  fms_attention_problem problem = simple_problem(FMS_F16, {kBatch, kHeads, kHeads, kLength, kLength, kDim});
  problem.features = 0;
  Buffer q(FMS_F16, 3 * kTensor), k(FMS_F16, kTensor);
  fms_attention_args args{};
  args.q = q.at(kTensor);
  args.k = args.v = k.at(0);
  for (const int64_t shift : {-kTensor + 1, -kDim, int64_t{-1}, int64_t{1}, kDim, kTensor - 1}) {
    args.o = q.at(kTensor + shift);
    expect_refused(run(context.get(), problem, args), "args.o", "args.q");
  }
  args.o = q.at(kTensor);
  EXPECT_EQ(run(context.get(), problem, args).status, FMS_OK);
  problem.o = {kHeads * kLength * kDim, kDim, kHeads * kDim};  // the same memory, rows elsewhere
  expect_refused(run(context.get(), problem, args), "args.o", "args.q");
}

TEST(Alias, WhatNoSequenceUsesIsNobodys) {
  const Context context = make_context(FMS_ISA_AUTO);
  const auto expect = [&](const fms_attention_problem& problem, fms_attention_args args, void* o, bool is_refused) {
    args.o = o;
    const Outcome outcome = run(context.get(), problem, args);
    if (is_refused) return expect_refused(outcome, "args.o", "args.k");
    EXPECT_EQ(outcome.status, FMS_OK) << to_string(outcome.error);
  };
  constexpr int64_t kRows = 10, kKeys = 64, kPage = 16;
  Buffer q(FMS_BF16, kRows * kDim), v(FMS_BF16, 8 * kKeys * kDim), k(FMS_BF16, 8 * kKeys * kDim);

  // Pages: o takes the place of a page that the table does not name, or of rows behind the last key of one that it
  // does.
  fms_attention_problem paged = simple_problem(FMS_BF16, {1, 1, 1, kRows, kKeys, kDim});
  paged.features = FMS_PAGED_KV | FMS_KV_LENGTHS;
  paged.page_size = kPage;
  paged.page_count = 8;
  paged.block_table_stride = kKeys / kPage;
  paged.k = paged.v = {kPage * kDim, kPage * kDim, kDim};
  const int32_t pages[] = {7, 2, 5, 0}, page_lengths[] = {3 * kPage + 2};
  fms_attention_args args{};
  args.q = q.at(0);
  args.k = k.at(0);
  args.v = v.at(0);
  args.block_table = pages;
  args.kv_lengths = page_lengths;
  for (int64_t page = 0; page < 8; ++page) {
    const bool is_used = page == 7 || page == 2 || page == 5 || page == 0;
    expect(paged, args, k.at(page * kPage * kDim), is_used);
  }
  expect(paged, args, k.at(2 * kDim), false);  // page 0 has two keys
  expect(paged, args, k.at(2 * kDim - 1), true);

  // Lengths: o behind a sequence's last key.
  fms_attention_problem lengths = simple_problem(FMS_BF16, {1, 1, 1, kRows, kKeys, kDim});
  lengths.features = FMS_KV_LENGTHS;
  const int32_t length[] = {20};
  args.kv_lengths = length;
  expect(lengths, args, k.at(20 * kDim), false);
  expect(lengths, args, k.at(20 * kDim - 1), true);

  // Packed: rows before the first sequence and behind the last.
  fms_attention_problem ragged = simple_problem(FMS_BF16, {2, 1, 1, kRows, kKeys, kDim});
  ragged.features = FMS_RAGGED_Q | FMS_RAGGED_KV;
  ragged.total_q = kRows;
  ragged.total_kv = 4 * kKeys;
  ragged.q = ragged.o = ragged.k = ragged.v = {0, kDim, kDim};
  const int32_t cu_q[] = {2, 5, 7}, cu_kv[] = {30, 60, 100};
  args.cu_q = cu_q;
  args.cu_kv = cu_kv;
  expect(ragged, args, k.at((30 - 7) * kDim), false);  // o's rows 2 to 7 end where the first key begins
  expect(ragged, args, k.at((30 - 7) * kDim + 1), true);
  expect(ragged, args, k.at((100 - 2) * kDim), false);  // and begin behind the last
  expect(ragged, args, k.at((100 - 2) * kDim - 1), true);
  expect(ragged, args, k.at(50 * kDim), true);
}

TEST(Alias, MergingWritesOverAPartOrApart) {
  const Context context = make_context(FMS_ISA_AUTO);
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, FMS_F16, 1, kHeads, kLength, kDim);
  constexpr int64_t kRows = kHeads * kLength, kSize = kRows * kDim;
  const auto outcome = [&](int64_t o_at, int64_t lse_at) {
    Buffer values(FMS_F16, 4 * kSize), sums(FMS_F32, 4 * kRows);
    Outcome result;
    result.status = fms_merge_states(context.get(), &problem, values.at(kSize), static_cast<float*>(sums.at(kRows)),
                                     values.at(2 * kSize), static_cast<float*>(sums.at(2 * kRows)), values.at(o_at),
                                     static_cast<float*>(sums.at(lse_at)), nullptr, &result.error);
    return result;
  };
  for (const int64_t o_at : {int64_t{0}, kSize, 2 * kSize, 3 * kSize})
    for (const int64_t lse_at : {int64_t{0}, kRows, 2 * kRows, 3 * kRows})
      EXPECT_EQ(outcome(o_at, lse_at).status, FMS_OK) << o_at << ' ' << lse_at;
  expect_refused(outcome(kSize + 1, 0), "o", "o_a");
  expect_refused(outcome(3 * kSize - 1, 0), "o", "o_b");
  expect_refused(outcome(0, kRows - 1), "lse", "lse_a");
  expect_refused(outcome(0, 3 * kRows - 1), "lse", "lse_b");
}

#if defined(FMS_COUNTING_DRIVER)
// Addresses are the device's, and index arrays cannot be read: pages and rows that might be used count.
TEST(Alias, OnAGpuTheDescriptionCounts) {
  fms_error error{};
  const Context context = counting_context(error);
  ASSERT_TRUE(context) << to_string(error);
  Call call("S=128", context.get(), simple_problem(FMS_F16, {1, 2, 2, 128, 128, 64}));
  ASSERT_EQ(call.run(context.get()), FMS_OK);
  const void* const k = call.args.k;
  call.args.o = const_cast<void*>(call.args.q);
  EXPECT_EQ(call.run(context.get()), FMS_OK) << "o may be q";
  call.args.o = const_cast<void*>(k);
  EXPECT_EQ(call.run(context.get()), FMS_INVALID_ARGUMENT);
  fms_attention_problem paged = simple_problem(FMS_F16, {2, 4, 4, 16, 512, 64});
  paged.features |= FMS_PAGED_KV;
  paged.page_size = 64;
  paged.page_count = 100;
  paged.block_table_stride = 8;
  Call pages("paged", context.get(), paged);
  ASSERT_EQ(pages.run(context.get()), FMS_OK);
  pages.args.o = const_cast<void*>(pages.args.k);
  EXPECT_EQ(pages.run(context.get()), FMS_INVALID_ARGUMENT);
}
#endif

}  // namespace
}  // namespace flashmoe::testing
