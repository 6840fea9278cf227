// Unequal batches on the virtual GPU: the list that every CTA derives from the lengths is complete, balanced and the
// same for all of them; results are right whatever the lengths, also those of a captured launch after they have
// changed.
//
//   FMS_GPU_BATCHES=n   random batches
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <tuple>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "cuda/handed_out_items.hpp"
#include "plan/planner.hpp"
#include "support/environment.hpp"
#include "support/judge.hpp"
#include "support/random_problem.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& unequal_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);  // what an SM holds does not matter here
    return Gpu();
  }();
  return only;
}

fms_attention_plan planned(const CoreProblem& one) {
  fms_attention_plan plan{};
  fms_error error{};
  if (fms_attention_plan_make(unequal_gpu().context(), &one.problem, &one.options, &plan, &error) != FMS_OK)
    throw std::runtime_error(to_string(error));
  return plan;
}

// ---- results -------------------------------------------------------------------------------------------------------

// Mostly single queries, some chunks, some nothing; keys from none to many.
CoreProblem random_batch(Random& random) {
  constexpr int64_t dims[] = {64, 128, 80}, groups[] = {1, 2, 4};
  const int64_t kv_heads = random.between(1, 3);
  const int64_t dim = dims[random.between(0, 2)], batch = random.between(1, random.chance(0.2) ? 70 : 12);
  CoreProblem one{"random",
                  simple_problem(random.chance(0.5) ? FMS_F16 : FMS_BF16,
                                 {batch, kv_heads * groups[random.between(0, 2)], kv_heads, 1, 1, dim}),
                  {},
                  plan_options(0, 0, 0)};
  std::vector<int32_t> q_lengths, kv_lengths;
  const int64_t longest = batch > 12 ? 200 : 900;
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t kv = random.chance(0.1) ? 0 : random.between(1, random.chance(0.3) ? longest : 90);
    q_lengths.push_back(static_cast<int32_t>(random.chance(0.1) ? 0 : random.chance(0.2) ? random.between(2, 100) : 1));
    kv_lengths.push_back(static_cast<int32_t>(kv));
  }
  if (random.chance(0.5)) one.problem.window_right = 0;
  if (random.chance(0.15)) one.problem.window_left = random.between(0, 200);
  if (random.chance(0.2)) one.problem.features |= FMS_SINKS;
  q_lengths.front() = std::max(q_lengths.front(), 1);
  kv_lengths.front() = std::max(kv_lengths.front(), 1);
  if (random.chance(0.5)) {
    make_ragged(one, q_lengths, kv_lengths);
  } else {
    one.problem = [&] {
      const fms_attention_problem& p = one.problem;
      fms_attention_problem dense =
          simple_problem(p.dtype, {batch, p.q_heads, p.kv_heads, random.chance(0.7) ? 1 : random.between(2, 20),
                                   std::ranges::max(kv_lengths), dim});
      dense.window_left = p.window_left;
      dense.window_right = p.window_right;
      dense.features |= p.features;
      return dense;
    }();
    make_paged(one, 16, kv_lengths);
  }
  return one;
}

TEST(Unequal, RandomBatchesAreRight) {
  Random random(20261116);
  const int64_t batches = from_environment("FMS_GPU_BATCHES", 15);
  int split = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const CoreProblem core = random_batch(random);
    AttentionCase one = normal_case(core.problem, static_cast<uint64_t>(i) + 1, core.indices);
    SCOPED_TRACE(one.describe());
    const RunResult result = unequal_gpu().run(one, &core.options);
    ASSERT_EQ(result.status, FMS_OK) << to_string(result.error);
    EXPECT_EQ(result.plan.kv_splits, 0);
    EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "");
    EXPECT_FALSE(one.stray_write().has_value()) << *one.stray_write();
    const auto findings = unequal_gpu().findings();
    EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600);
    split += result.plan.workspace_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(split, batches / 4) << "hardly a batch that may be split";
}

// ---- one plan, other lengths ---------------------------------------------------------------------------------------

// The functions of graphs, which the library itself does not call.
template <class Function>
Function* graph_function(const char* name) {
  void* const library = dlopen(unequal_gpu().driver().library().c_str(), RTLD_NOW | RTLD_NOLOAD);
  void* const found = dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(name);
  return reinterpret_cast<Function*>(found);
}

void set_lengths(AttentionCase& one, const std::vector<int32_t>& lengths) {
  for (const std::span<uint8_t> host : one.buffers()) {
    if (static_cast<const void*>(host.data()) == one.args().kv_lengths)
      std::memcpy(host.data(), lengths.data(), lengths.size() * sizeof(int32_t));
  }
}

TEST(Unequal, ACapturedLaunchServesLengthsThatChange) {
  using Code = runtime::cuda::Code;
  using Stream = runtime::cuda::StreamHandle;
  const std::vector<std::vector<int32_t>> lengths = {
      {900, 10, 64, 1}, {1, 900, 0, 500}, {65, 65, 65, 65}, {0, 0, 0, 3}, {900, 900, 900, 900}};
  CoreProblem core{"decode", simple_problem(FMS_F16, {4, 4, 2, 1, 900, 64}), {}, plan_options(0, 0, 0)};
  core.problem.features |= FMS_KV_LENGTHS;
  core.indices.kv_lengths = lengths.back();  // all keys have values; a case spoils those that nobody sees
  AttentionCase one = core.with_data();
  const fms_attention_plan plan = planned(core);
  ASSERT_EQ(plan.kv_splits, 0);
  ASSERT_GT(plan.workspace_bytes, 0U);
  DeviceCase there(unequal_gpu(), one);
  runtime::Buffer workspace = must(runtime::Buffer::create(unequal_gpu().device(), plan.workspace_bytes));
  must(workspace.write(std::vector<std::byte>(workspace.bytes())));
  runtime::Buffer on_device = must(runtime::Buffer::create(unequal_gpu().device(), 4 * sizeof(int32_t)));
  fms_attention_args args = there.args();
  args.kv_lengths = reinterpret_cast<const int32_t*>(on_device.address());
  args.flags = FMS_WORKSPACE_READY;

  const runtime::cuda::Functions& call = unequal_gpu().driver().call();
  Stream stream = nullptr;
  void *graph = nullptr, *exec = nullptr;
  ASSERT_EQ(call.stream_create(&stream, 1), 0);
  ASSERT_EQ(graph_function<Code(Stream, int)>("cuStreamBeginCapture_v2")(stream, 0), 0);
  fms_error error{};
  ASSERT_EQ(fms_attention_run(unequal_gpu().context(), &plan, &args, reinterpret_cast<void*>(workspace.address()),
                              plan.workspace_bytes, stream, &error),
            FMS_OK)
      << to_string(error);
  ASSERT_EQ(graph_function<Code(Stream, void**)>("cuStreamEndCapture")(stream, &graph), 0);
  ASSERT_EQ(graph_function<Code(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&exec, graph, 0), 0);
  for (const std::vector<int32_t>& now : lengths) {
    const auto bytes = std::as_bytes(std::span(now));
    must(on_device.write(std::vector<std::byte>(bytes.begin(), bytes.end())));
    one.reset_outputs();
    there.copy_outputs_to_device(one);
    ASSERT_EQ(graph_function<Code(void*, Stream)>("cuGraphLaunch")(exec, stream), 0);
    must(unequal_gpu().device()->synchronize());
    there.copy_back(one);
    set_lengths(one, now);
    EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "") << one.describe();
    const std::vector<uint8_t> replayed = one.output_bytes();
    // The same bits as those of a plan and a run of now.
    one.reset_outputs();
    ASSERT_EQ(unequal_gpu().run(one, &core.options).status, FMS_OK);
    EXPECT_EQ(one.output_bytes(), replayed) << one.describe();
    const auto findings = unequal_gpu().findings();
    EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600);
  }
  EXPECT_EQ(graph_function<Code(void*)>("cuGraphExecDestroy")(exec), 0);
  EXPECT_EQ(graph_function<Code(void*)>("cuGraphDestroy")(graph), 0);
  EXPECT_EQ(call.stream_destroy(stream), 0);
}

// ---- the list itself -----------------------------------------------------------------------------------------------

struct Listed {
  fms_attention_plan plan;
  std::vector<Item> items;  // of every CTA
};

// Beside the kernel's stop one thing may be wrong.
Listed listed(const CoreProblem& core, const Mutation& wrong = {"nothing", nullptr, nullptr, nullptr}) {
  Listed made{planned(core), {}};
  std::vector<runtime::Buffer> arrays;
  const auto to_device = [&](const std::vector<int32_t>& values) -> const int32_t* {
    if (values.empty()) return nullptr;
    const auto bytes = std::as_bytes(std::span(values));
    arrays.push_back(must(runtime::Buffer::create(unequal_gpu().device(), bytes.size())));
    must(arrays.back().write(std::vector<std::byte>(bytes.begin(), bytes.end())));
    return reinterpret_cast<const int32_t*>(arrays.back().address());
  };
  fms_attention_args args{};
  args.cu_q = to_device(core.indices.cu_q);
  args.cu_kv = to_device(core.indices.cu_kv);
  args.kv_lengths = to_device(core.indices.kv_lengths);
  made.items = handed_out_items(unequal_gpu(), made.plan, args, 0, wrong);
  return made;
}

int64_t length(const std::vector<int32_t>& begins, int sequence) {
  return begins[static_cast<std::size_t>(sequence) + 1] - begins[static_cast<std::size_t>(sequence)];
}

// What an item walks over, without a mask.
int64_t keys_of(const CoreProblem& core, const Item& item) {
  return (length(core.indices.cu_kv, item.sequence) + item.splits - 1) / item.splits;
}

// Empty: the list is as it should be.
std::string complaint(const CoreProblem& core, const Listed& list) {
  const fms_attention_problem& p = core.problem;
  const int64_t group = p.q_heads / p.kv_heads, slots = plan::split_states(list.plan).states;
  std::set<std::tuple<int, int, int, int>> places;
  std::map<std::pair<int, int>, int> splits;  // of a sequence's tiles
  std::map<int, std::tuple<int, int, int>> owners;
  int64_t longest = 0, wanted = 0;
  bool has_ended = false;
  for (const Item& item : list.items) {
    if (item.sequence < 0) {
      has_ended = true;
      continue;
    }
    if (has_ended) return "an item behind an idle CTA";
    if (item.sequence >= p.batch || item.kv_head < 0 || item.kv_head >= p.kv_heads) return "no such sequence or head";
    if (item.first_row % list.plan.q_tile != 0 || item.first_row >= group * length(core.indices.cu_q, item.sequence))
      return "no such tile";
    if (item.split < 0 || item.split >= item.splits) return "no such split";
    if (!places.insert({item.sequence, item.kv_head, item.first_row, item.split}).second) return "an item twice";
    const auto [known, is_new] = splits.try_emplace({item.sequence, 0}, item.splits);
    if (known->second != item.splits) return "tiles of a sequence that are split differently";
    if (item.splits > 1) {
      if (item.states < 0 || item.states + item.splits > slots || item.counter != item.states) return "a state outside";
      for (int i = 0; i < item.splits; ++i) {
        const std::tuple owner{item.sequence, item.kv_head, item.first_row};
        if (owners.try_emplace(item.states + i, owner).first->second != owner) return "a state of two tiles";
      }
    }
    // In classes of an eighth of the longest.
    const int64_t keys = keys_of(core, item);
    longest = std::max(longest, keys);
    wanted += 1;
  }
  int64_t last = longest;
  for (const Item& item : list.items) {
    if (item.sequence < 0) break;
    const int64_t keys = keys_of(core, item);
    if (keys > last + longest / 8 + list.plan.kv_tile) return "a long item behind a short one";
    last = std::min(last, keys);
  }
  int64_t tiles = 0;
  for (int i = 0; i < p.batch; ++i) {
    const int64_t rows = group * length(core.indices.cu_q, i);
    const int64_t of_sequence = p.kv_heads * ((rows + list.plan.q_tile - 1) / list.plan.q_tile);
    const auto known = splits.find({i, 0});
    if (of_sequence > 0 && known == splits.end()) return "a sequence is missing";
    tiles += of_sequence * (of_sequence > 0 ? known->second : 0);
  }
  return tiles == wanted ? "" : "an item is missing";
}

CoreProblem batch_of(const Shape& heads, const std::vector<int32_t>& q_lengths,
                     const std::vector<int32_t>& kv_lengths) {
  CoreProblem one{"batch", simple_problem(FMS_F16, heads), {}, plan_options(0, 0, 0)};
  one.problem.window_right = 0;
  make_ragged(one, q_lengths, kv_lengths);
  return one;
}

// One prefill chunk of 2,048 queries among 63 decodes of some thousand keys.
CoreProblem chunk_among_decodes() {
  Random random(5);
  std::vector<int32_t> q_lengths(64, 1), kv_lengths;
  for (int i = 0; i < 64; ++i) kv_lengths.push_back(static_cast<int32_t>(random.between(500, 8000)));
  q_lengths[17] = 2048;
  kv_lengths[17] = 4096;
  return batch_of({64, 32, 8, 1, 1, 128}, q_lengths, kv_lengths);
}

CoreProblem one_long_among_short() {
  Random random(6);
  std::vector<int32_t> kv_lengths;
  for (int i = 0; i < 64; ++i) kv_lengths.push_back(static_cast<int32_t>(random.between(100, 1000)));
  kv_lengths[40] = 32768;
  return batch_of({64, 32, 8, 1, 1, 128}, std::vector<int32_t>(64, 1), kv_lengths);
}

// Prompts of odd lengths with long histories among decodes, more sequences than a warp has lanes.
CoreProblem several_long() {
  std::vector<int32_t> q_lengths(70, 1), kv_lengths(70, 100);
  for (const std::size_t at : {3, 20, 35, 50, 66}) {
    q_lengths[at] = 21;
    kv_lengths[at] = static_cast<int32_t>(3000 + 100 * at);
  }
  return batch_of({70, 8, 2, 1, 1, 64}, q_lengths, kv_lengths);
}

TEST(Unequal, TheChunkCaseHasHardlyAnIdleCta) {
  const CoreProblem core = chunk_among_decodes();
  const Listed list = listed(core);
  EXPECT_EQ(complaint(core, list), "");
  const auto idle = std::ranges::count_if(list.items, [](const Item& item) { return item.sequence < 0; });
  const auto ctas = static_cast<double>(list.items.size());
  std::cout << "  " << idle << " of " << ctas << " CTAs are idle, workspace " << list.plan.workspace_bytes
            << " bytes (virtual)\n";
  EXPECT_LE(static_cast<double>(idle), 0.05 * ctas);
}

// CTAs in their order, each to the SM that is free first.
TEST(Unequal, OneLongSequenceIsSharedByAllSms) {
  const CoreProblem core = one_long_among_short();
  const Listed list = listed(core);
  EXPECT_EQ(complaint(core, list), "");
  std::vector<int64_t> keys(static_cast<std::size_t>(list.plan.sm_count));
  for (const Item& item : list.items) {
    if (item.sequence >= 0) *std::ranges::min_element(keys) += keys_of(core, item);
  }
  int64_t all = 0;
  for (const int64_t one : keys) all += one;
  const double busiest =
      static_cast<double>(std::ranges::max(keys)) * static_cast<double>(keys.size()) / static_cast<double>(all);
  std::cout << "  the busiest SM has " << busiest << " times the mean's keys (virtual)\n";
  EXPECT_LE(busiest, 1.15);
}

TEST(Unequal, RandomListsAreComplete) {
  Random random(7);
  for (const int64_t batch : {1, 33, 100, 400}) {
    std::vector<int32_t> q_lengths, kv_lengths;
    for (int64_t n = 0; n < batch; ++n) {
      q_lengths.push_back(static_cast<int32_t>(random.chance(0.1) ? random.between(0, 700) : 1));
      kv_lengths.push_back(static_cast<int32_t>(random.between(0, random.chance(0.1) ? 30000 : 900)));
    }
    q_lengths.front() = 1;
    const CoreProblem core = batch_of({batch, 4, 2, 1, 1, 64}, q_lengths, kv_lengths);
    EXPECT_EQ(complaint(core, listed(core)), "") << batch;
  }
}

// ---- what is wrong with a list is noticed --------------------------------------------------------------------------

TEST(Unequal, MistakesInTheListAreNoticed) {
  constexpr const char* file = "attention/work_list.cuh";
  constexpr Mutation mistakes[] = {
      {"a tile too few", file, "(sequence.q_len * p.group + Shape::rows - 1) / Shape::rows",
       "max(sequence.q_len * p.group / Shape::rows, 1)"},
      {"rows without the group", file, "sequence.q_len * p.group + Shape", "sequence.q_len + Shape"},
      {"the share rounded down", file, "splits = min((this->blocks + share - 1) / share",
       "splits = min(this->blocks / share"},
      {"more items than CTAs", file, "items <= p_.list_items && ", ""},
      {"more states than slots", file, " && slots <= p_.list_slots", ""},
      {"classes in no order", file, "(share - longest) * classes / share", "longest * classes / share"},
      {"the rest of a class", file, "item -= all;", "item -= all - 1;"},
      {"a sum of the lanes", file, "if (lane_ >= step) value += before;", "value += before;"},
      {"slots of earlier sequences", file, "slots_before += __shfl", "slots_before = __shfl"},
      {"one slot for all tiles", file, " + tile * part.splits;", ";"},
      {"slots of one head for all", file, "kv_head * p_.list_slots + ", ""},
      {"the split of another tile", file, "item.split = index - tile * part.splits;", "item.split = index;"},
      {"a head too many", file, "kv_head = cta - in_head * p_.kv_heads", "kv_head = cta - in_head"},
  };
  const CoreProblem cores[] = {several_long(), one_long_among_short(), chunk_among_decodes()};
  for (const CoreProblem& core : cores) ASSERT_EQ(complaint(core, listed(core)), "");
  for (const Mutation& mistake : mistakes) {
    bool is_noticed = false;
    for (const CoreProblem& core : cores) is_noticed = is_noticed || !complaint(core, listed(core, mistake)).empty();
    EXPECT_TRUE(is_noticed) << mistake.name;
  }
}

}  // namespace
}  // namespace flashmoe::testing
