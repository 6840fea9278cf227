// Attention from C++: one description, one plan, many runs; then the same answer from two halves of the keys.
// Build it with find_package(FlashMoEScience) and target_link_libraries(... FlashMoEScience::flashmoe).
// Exits 0 when the halves, merged, agree with the whole.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <flashmoe/attention.hpp>
#include <random>
#include <vector>

int main() try {
  constexpr flashmoe::Shape shape{.q_heads = 4, .kv_heads = 2, .q_len = 3, .kv_len = 64, .head_dim = 32};
  constexpr std::int64_t q_elements = shape.q_heads * shape.q_len * shape.head_dim;
  constexpr std::int64_t kv_elements = shape.kv_heads * shape.kv_len * shape.head_dim;

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto filled = [&](std::int64_t elements) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    for (float& value : values) value = normal(random);
    return values;
  };
  const std::vector<float> q = filled(q_elements), k = filled(kv_elements), v = filled(kv_elements);
  std::vector<float> o(q.size()), lse(static_cast<std::size_t>(shape.q_heads * shape.q_len));

  const flashmoe::Context context;
  const flashmoe::Plan plan = context.plan(flashmoe::Problem(FMS_F32, shape).lse());
  std::puts(plan.explain().c_str());
  const flashmoe::Workspace workspace(plan);
  const fms_run_info info =
      context.run(plan, {.q = q.data(), .k = k.data(), .v = v.data(), .o = o.data(), .lse = lse.data()}, workspace);
  std::printf("ran %s on %d thread(s)\n", fms_cpu_isa_name(info.cpu_isa), info.threads);

  // Half of the keys at a time: the same strides, a shorter kv_len.
  flashmoe::Problem half = flashmoe::Problem(FMS_F32, shape).lse();
  half.raw().kv_len = shape.kv_len / 2;
  const flashmoe::Plan half_plan = context.plan(half);
  std::vector<float> o_part[2] = {o, o}, lse_part[2] = {lse, lse};
  for (int part = 0; part < 2; ++part) {
    const std::int64_t first_key = part * (shape.kv_len / 2) * shape.head_dim;
    context.run(half_plan, {.q = q.data(),
                            .k = k.data() + first_key,
                            .v = v.data() + first_key,
                            .o = o_part[part].data(),
                            .lse = lse_part[part].data()});
  }
  fms_merge_problem merge;
  fms_merge_problem_init(&merge, FMS_F32, shape.batch, shape.q_heads, shape.q_len, shape.head_dim);
  context.merge_states(merge, {.o_a = o_part[0].data(),
                               .lse_a = lse_part[0].data(),
                               .o_b = o_part[1].data(),
                               .lse_b = lse_part[1].data(),
                               .o = o_part[0].data(),
                               .lse = lse_part[0].data()});

  float max_diff = 0;
  for (std::size_t i = 0; i < o.size(); ++i) max_diff = std::fmax(max_diff, std::fabs(o[i] - o_part[0][i]));
  std::printf("whole against merged halves: max difference %g\n", static_cast<double>(max_diff));
  return max_diff < 1e-5f ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const flashmoe::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
