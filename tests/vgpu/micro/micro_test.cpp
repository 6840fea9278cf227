// One micro-kernel per form, on the virtual GPU and on the scalar oracle. VGPU_ISA chooses the host's instruction set
// for the arithmetic; CMake runs these tests once for each. VGPU_MICRO_ONLY=mbarrier.try judges the forms that begin
// so, VGPU_MICRO_TEXT=1 prints the kernels that differ.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "support/sanitizers.hpp"
#include "support/tree_for_test.hpp"
#include "vgpu/micro/bench.hpp"
#include "vgpu/micro/forms.hpp"
#include "vgpu/micro/handwritten.hpp"
#include "vgpu/micro/memory_forms.hpp"
#include "vgpu/micro/register_forms.hpp"
#include "vgpu/micro/writer.hpp"

namespace flashmoe::vgpu::micro {
namespace {

constexpr std::size_t shown_of_an_opcode = 10;

enum class Group { registers, memory, other };

Group group_of(const FormText& form) {
  static const std::set<std::string> memory = {"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix"};
  if (memory.contains(form.opcode)) return Group::memory;
  return is_handwritten(form) ? Group::other : Group::registers;
}

// They read through objects that only a driver makes: tests/vgpu/clients/texture_client.cu judges them.
bool needs_an_object(const FormText& form) {
  return form.opcode == "tex" || form.opcode == "suld" || form.opcode == "sust";
}

std::optional<MicroKernel> make(const FormText& form) {
  Random random(std::hash<std::string>{}(form.text));
  switch (group_of(form)) {
    case Group::memory:
      return memory_form(form, random);
    case Group::other:
      return handwritten_form(form, random);
    case Group::registers:
      break;
  }
  return register_form(form, random);
}

// Judges the forms of one group; every form without a micro-kernel is a failure of its own.
void judge_all(const std::vector<FormText>& forms, const std::function<bool(Group)>& wanted, std::size_t stride) {
  Bench bench;
  std::map<std::string, std::size_t> failures;
  std::size_t judged = 0, failed = 0, number = 0;
  const char* only = std::getenv("VGPU_MICRO_ONLY");
  for (const FormText& form : forms) {
    if (only != nullptr && !form.text.starts_with(only)) continue;
    if (ends_the_grid(form) || needs_an_object(form) || !wanted(group_of(form)) || number++ % stride != 0) continue;
    const std::optional<MicroKernel> kernel = make(form);
    if (!kernel) {
      ADD_FAILURE() << form.text << " has no micro-kernel";
      continue;
    }
    ++judged;
    const std::string problem = bench.judge(*kernel);
    if (problem.empty()) continue;
    ++failed;
    if (++failures[form.opcode] <= shown_of_an_opcode)
      ADD_FAILURE() << problem << (std::getenv("VGPU_MICRO_TEXT") != nullptr ? "\n" + kernel->text : "");
  }
  for (const auto& [opcode, count] : failures) std::printf("%s: %zu forms differ\n", opcode.c_str(), count);
  std::printf("forms: %zu, micro-kernels run: %zu, differing: %zu\n", forms.size(), judged, failed);
  EXPECT_GT(judged, 0u);
  EXPECT_EQ(failed, 0u);
}

// Thousands of loads and stores differ in hints only; a sanitizer sees enough in every eleventh.
std::size_t stride() {
  return testing::kSlowBuild ? 11 : 1;
}

TEST(MicroKernels, RegisterForms) {
  judge_all(
      forms_of_the_table(), [](Group g) { return g == Group::registers; }, stride());
}

TEST(MicroKernels, MemoryForms) {
  judge_all(
      forms_of_the_table(), [](Group g) { return g == Group::memory; }, stride());
}

TEST(MicroKernels, HandwrittenForms) {
  judge_all(
      forms_of_the_table(), [](Group g) { return g == Group::other; }, 1);
}

// Only the lanes that get there stop the grid; a guard that no lane passes does not.
TEST(MicroKernels, FormsThatEndTheGrid) {
  Bench bench;
  for (const FormText& form : forms_of_the_table()) {
    if (!ends_the_grid(form)) continue;
    for (const std::uint32_t lane : {7u, 99u}) {
      Random random(1);
      Writer writer(form.text, 32, random);
      const std::string p = writer.fresh(1);
      writer.line(fmt::format("setp.eq.u32 {}, %thread, {};", p, lane));
      writer.line(fmt::format("@{} {};", p, form.text));
      const std::string fault = bench.fault(writer.finish());
      EXPECT_EQ(fault.starts_with("fault: "), lane < 32) << form.text << ": " << fault;
    }
  }
}

TEST(MicroKernels, FormsThatPublishedAttentionKernelsUse) {
  std::vector<std::string> unsupported;
  const std::vector<FormText> forms =
      forms_of_the_list(in_sources("src/vgpu/ir/testdata/attention_forms_sm89.txt"), unsupported);
  EXPECT_EQ(unsupported, std::vector<std::string>{});
  EXPECT_EQ(forms.size(), 148u);
  judge_all(
      forms, [](Group) { return true; }, 1);
}

}  // namespace
}  // namespace flashmoe::vgpu::micro
