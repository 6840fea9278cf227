// docs/plan-map.svg: tile and splits of the planner's choices over lengths and heads, as a picture. The target plan_map
// writes it, the test holds it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "cuda/table_kernels.hpp"
#include "support/simple_case.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::testing {
namespace {

constexpr const char* gpus[] = {"l4", "a100", "h100"};
constexpr int64_t lengths[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
constexpr int64_t heads[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
constexpr int cell = 26, left = 46, top = 62, between = 70;
constexpr int map_width = cell * static_cast<int>(std::size(lengths));
constexpr int map_height = cell * static_cast<int>(std::size(heads));

const char* colour(int32_t q_tile) {
  return q_tile == 16 ? "#dbeafe" : q_tile == 32 ? "#93c5fd" : q_tile == 64 ? "#3b82f6" : "#1e3a8a";
}

std::string text_at(int x, int y, const std::string& text, const char* more = "") {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" " + more + ">" + text + "</text>\n";
}

// One GPU, prompts or decodes.
std::string map_of(const flashmoe::Gpu& gpu, bool is_decode, int x, int y) {
  const auto kernels = table_kernels(gpu);
  plan::DeviceCaps caps;
  caps.kind = FMS_DEVICE_CUDA;
  caps.gpu = planner_figures(driver_answers(gpu));
  caps.cuda_kernels = kernels.get();
  std::string svg = text_at(x, y - 22, std::string(gpu.id) + (is_decode ? ", one query" : ", a causal prompt"),
                            "font-weight=\"bold\" text-anchor=\"start\"");
  for (std::size_t row = 0; row < std::size(heads); ++row) {
    const int cell_y = y + map_height - cell * static_cast<int>(row + 1);
    svg += text_at(x - 6, cell_y + 17, std::to_string(heads[row]), "text-anchor=\"end\"");
    for (std::size_t column = 0; column < std::size(lengths); ++column) {
      const int cell_x = x + cell * static_cast<int>(column);
      fms_attention_problem problem =
          simple_problem(FMS_F16, {1, heads[row], heads[row], is_decode ? 1 : lengths[column], lengths[column], 128});
      if (!is_decode) problem.window_right = 0;
      fms_attention_plan plan{};
      fms_error error{};
      EXPECT_EQ(plan::make_plan(caps, problem, nullptr, &plan, &error), FMS_OK) << error.message;
      svg += "<rect x=\"" + std::to_string(cell_x) + "\" y=\"" + std::to_string(cell_y) + "\" width=\"" +
             std::to_string(cell - 1) + "\" height=\"" + std::to_string(cell - 1) + "\" fill=\"" + colour(plan.q_tile) +
             "\"/>\n";
      if (plan.kv_splits > 1)
        svg += text_at(cell_x + cell / 2, cell_y + 17, std::to_string(plan.kv_splits), "text-anchor=\"middle\"");
    }
  }
  for (std::size_t column = 0; column < std::size(lengths); ++column) {
    const int64_t length = lengths[column];
    svg +=
        text_at(x + cell * static_cast<int>(column) + cell / 2, y + map_height + 13,
                length < 1024 ? std::to_string(length) : std::to_string(length / 1024) + "k", "text-anchor=\"middle\"");
  }
  return svg;
}

std::string picture() {
  const int width = left + 3 * map_width + 2 * between + 10, height = top + 2 * map_height + between + 70;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + std::to_string(width) + " " +
                    std::to_string(height) + "\" font-family=\"sans-serif\" font-size=\"10\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg +=
      text_at(left, 16,
              "What the planner chooses (fp16, D = 128): across, keys; upward, batch x heads. Colour: rows of a tile. "
              "Number: ways in which keys are split. Predicted, not measured.",
              "font-size=\"12\"");
  int x = left;
  for (const char* const id : gpus) {
    for (const bool is_decode : {false, true})
      svg += map_of(*find_gpu(id), is_decode, x, top + (is_decode ? map_height + between : 0));
    x += map_width + between;
  }
  x = left;
  for (const int32_t q_tile : {16, 32, 64, 128}) {
    svg += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(height - 26) +
           "\" width=\"14\" height=\"14\" fill=\"" + colour(q_tile) + "\"/>\n";
    svg += text_at(x + 19, height - 15, std::to_string(q_tile) + " rows");
    x += 80;
  }
  return svg + "</svg>\n";
}

TEST(PlanMap, ShowsTodaysPlans) {
  const std::string path = in_sources("docs/plan-map.svg"), made = picture();
  if (std::getenv("FMS_REBASE") != nullptr) std::ofstream(path) << made;
  std::ifstream file(path);
  const std::string held{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(made == held) << path << " is of other plans: cmake --build build/release --target plan_map";
}

}  // namespace
}  // namespace flashmoe::testing
